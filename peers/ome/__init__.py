"""What the tests of OME-Zarr share: documents, hierarchies, and the implementations that judge them."""
