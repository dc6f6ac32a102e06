"""Cases about plates, wells and the layout of bioformats2raw, in all versions."""

from __future__ import annotations

from .documents import Document
from .own import breaks, keeps, neglects
from .own_image import OLD


@keeps("plate")
def plate(doc: Document) -> None:
    """Two rows, three columns, a well that is not there, two acquisitions."""


@keeps("plate")
def plate_without_acquisitions(doc: Document) -> None:
    """The acquisitions are optional."""
    del doc.plate["acquisitions"]


@keeps("plate")
def rows_of_two_letters(doc: Document) -> None:
    """The name of a row is letters and digits, as many as there need be."""
    doc.plate["rows"] = [{"name": "AA1"}]
    doc.plate["columns"] = [{"name": "01"}]
    doc.plate["wells"] = [{"path": "AA1/01", "rowIndex": 0, "columnIndex": 0}]


@breaks("plate")
def plate_is_a_list(doc: Document) -> None:
    """A plate is an object."""
    doc.ome["plate"] = [doc.plate]


@breaks("plate")
def plate_without_rows(doc: Document) -> None:
    """A plate has rows."""
    del doc.plate["rows"]


@breaks("plate")
def rows_are_empty(doc: Document) -> None:
    """A plate has at least one row."""
    doc.plate["rows"] = []


@breaks("plate")
def row_without_name(doc: Document) -> None:
    """A row has a name."""
    doc.plate["rows"].append({})


@breaks("plate")
def rows_are_strings(doc: Document) -> None:
    """A row is an object."""
    doc.plate["rows"] = ["A", "B"]


@breaks("plate")
def name_of_a_row_is_a_number(doc: Document) -> None:
    """The name of a row is a string."""
    doc.plate["rows"].append({"name": 3})


@breaks("plate")
def name_of_a_row_with_a_dash(doc: Document) -> None:
    """The name of a row has letters and digits only."""
    doc.plate["rows"].append({"name": "C-1"})


@breaks("plate")
def rows_of_one_name(doc: Document) -> None:
    """Two rows do not have the same name."""
    doc.plate["rows"].append({"name": "A"})


@breaks("plate", unseen=True)
def rows_of_one_name_that_differ(doc: Document) -> None:
    """Two rows do not have the same name, whatever else they say."""
    doc.plate["rows"].append({"name": "A", "vendor": 1})


@breaks("plate")
def plate_without_columns(doc: Document) -> None:
    """A plate has columns."""
    del doc.plate["columns"]


@breaks("plate")
def columns_are_empty(doc: Document) -> None:
    """A plate has at least one column."""
    doc.plate["columns"] = []


@breaks("plate")
def column_without_name(doc: Document) -> None:
    """A column has a name."""
    doc.plate["columns"].append({"index": 4})


@breaks("plate")
def name_of_a_column_with_a_space(doc: Document) -> None:
    """The name of a column has letters and digits only."""
    doc.plate["columns"].append({"name": "4 b"})


@breaks("plate")
def columns_of_one_name(doc: Document) -> None:
    """Two columns do not have the same name."""
    doc.plate["columns"].append({"name": "3"})


@breaks("plate")
def plate_without_wells(doc: Document) -> None:
    """A plate has wells."""
    del doc.plate["wells"]


@breaks("plate")
def wells_are_empty(doc: Document) -> None:
    """A plate has at least one well."""
    doc.plate["wells"] = []


@breaks("plate")
def well_without_path(doc: Document) -> None:
    """A well says where it is."""
    del doc.plate["wells"][2]["path"]


@breaks("plate")
def well_without_row(doc: Document) -> None:
    """A well says in which row it is."""
    del doc.plate["wells"][2]["rowIndex"]


@breaks("plate")
def well_without_column(doc: Document) -> None:
    """A well says in which column it is."""
    del doc.plate["wells"][2]["columnIndex"]


@breaks("plate")
def path_of_one_part(doc: Document) -> None:
    """The path of a well is a row and a column."""
    doc.plate["wells"][0]["path"] = "A"


@breaks("plate")
def path_of_three_parts(doc: Document) -> None:
    """Nothing is below the column."""
    doc.plate["wells"][0]["path"] = "A/1/0"


@breaks("plate")
def path_with_a_leading_slash(doc: Document) -> None:
    """Nothing is above the row."""
    doc.plate["wells"][0]["path"] = "/A/1"


@breaks("plate", unseen=True)
def path_with_the_column_first(doc: Document) -> None:
    """The row comes first."""
    doc.plate["wells"][0]["path"] = "1/A"


@breaks("plate", unseen=True)
def path_to_another_well(doc: Document) -> None:
    """The path and the numbers are about the same well."""
    doc.plate["wells"][1]["path"] = "B/2"


@breaks("plate", unseen=True)
def row_out_of_range(doc: Document) -> None:
    """The number of a row is that of one in the list."""
    doc.plate["wells"][1]["rowIndex"] = 2


@breaks("plate", unseen=True)
def numbers_from_one(doc: Document) -> None:
    """Rows and columns are counted from zero."""
    for well in doc.plate["wells"]:
        well["rowIndex"] += 1
        well["columnIndex"] += 1


@breaks("plate")
def row_below_zero(doc: Document) -> None:
    """Rows are counted from zero."""
    doc.plate["wells"][0]["rowIndex"] = -1


@breaks("plate")
def column_is_a_string(doc: Document) -> None:
    """The number of a column is an integer."""
    doc.plate["wells"][0]["columnIndex"] = "0"


@breaks("plate")
def column_is_a_fraction(doc: Document) -> None:
    """The number of a column is an integer."""
    doc.plate["wells"][0]["columnIndex"] = 0.5


@breaks("plate")
def well_is_there_twice(doc: Document) -> None:
    """A well is listed once."""
    doc.plate["wells"].append(dict(doc.plate["wells"][0]))


@breaks("plate")
def acquisitions_are_no_list(doc: Document) -> None:
    """The acquisitions are a list."""
    doc.plate["acquisitions"] = {"1": {}}


@breaks("plate")
def acquisition_without_id(doc: Document) -> None:
    """An acquisition has a number."""
    del doc.plate["acquisitions"][0]["id"]


@breaks("plate")
def acquisition_below_zero(doc: Document) -> None:
    """The number of an acquisition is at least 0."""
    doc.plate["acquisitions"][0]["id"] = -1


@breaks("plate")
def acquisition_is_a_string(doc: Document) -> None:
    """The number of an acquisition is an integer."""
    doc.plate["acquisitions"][0]["id"] = "1"


@breaks("plate", unseen=True)
def acquisitions_of_one_id(doc: Document) -> None:
    """Two acquisitions do not have the same number."""
    doc.plate["acquisitions"][0]["id"] = 2


@breaks("plate")
def acquisition_of_no_fields(doc: Document) -> None:
    """The number of fields of an acquisition is positive."""
    doc.plate["acquisitions"][0]["maximumfieldcount"] = 0


@breaks("plate")
def acquisition_of_half_a_field(doc: Document) -> None:
    """The number of fields of an acquisition is an integer."""
    doc.plate["acquisitions"][0]["maximumfieldcount"] = 1.5


@breaks("plate")
def acquisition_at_a_date(doc: Document) -> None:
    """The time of an acquisition is a number of seconds."""
    doc.plate["acquisitions"][0]["starttime"] = "2026-01-01"


@breaks("plate")
def acquisition_to_the_millisecond(doc: Document) -> None:
    """The time of an acquisition is a whole number of seconds."""
    doc.plate["acquisitions"][0]["endtime"] = 1_700_000_000.125


@breaks("plate")
def name_of_an_acquisition_is_a_number(doc: Document) -> None:
    """The name of an acquisition is a string."""
    doc.plate["acquisitions"][0]["name"] = 1


@breaks("plate")
def description_is_a_list(doc: Document) -> None:
    """The description of an acquisition is a string."""
    doc.plate["acquisitions"][0]["description"] = ["by", "hand"]


@breaks("plate")
def plate_of_no_fields(doc: Document) -> None:
    """The number of fields is positive."""
    doc.plate["field_count"] = 0


@breaks("plate")
def plate_of_half_a_field(doc: Document) -> None:
    """The number of fields is an integer."""
    doc.plate["field_count"] = 0.5


@breaks("plate")
def name_of_a_plate_is_a_number(doc: Document) -> None:
    """The name of a plate is a string."""
    doc.plate["name"] = 5966


@breaks("plate", versions="0.4")
def version_of_a_plate_is_a_number(doc: Document) -> None:
    """The version of a plate is a string."""
    doc.plate["version"] = 0.4


@neglects("plate")
def plate_without_name(doc: Document) -> None:
    """A plate should have a name."""
    del doc.plate["name"]


@neglects("plate", versions="0.4")
def plate_without_version(doc: Document) -> None:
    """A plate should say which version it is."""
    del doc.plate["version"]


@neglects("plate")
def acquisition_without_name(doc: Document) -> None:
    """An acquisition should have a name."""
    del doc.plate["acquisitions"][1]["name"]


@neglects("plate")
def acquisition_without_number_of_fields(doc: Document) -> None:
    """An acquisition should say how many fields it has at most."""
    del doc.plate["acquisitions"][1]["maximumfieldcount"]


@neglects("plate")
def rows_that_differ_in_case(doc: Document) -> None:
    """Names should differ in more than case, for file systems that do not see it."""
    doc.plate["rows"].append({"name": "a"})


# ---- wells


@keeps("well")
def well(doc: Document) -> None:
    """Two fields of two acquisitions."""


@keeps("well")
def well_of_one_acquisition(doc: Document) -> None:
    """A field need not say which acquisition it is of, if there is one."""
    for image in doc.fields:
        del image["acquisition"]


@keeps("well", versions="0.6")
def field_with_marks(doc: Document) -> None:
    """The path of a field may have dots, dashes and underscores."""
    doc.fields[0]["path"] = "field-1_a.b"


@breaks("well")
def well_without_images(doc: Document) -> None:
    """A well lists its fields."""
    del doc.ome["well"]["images"]


@breaks("well")
def images_are_empty(doc: Document) -> None:
    """A well has at least one field."""
    doc.ome["well"]["images"] = []


@breaks("well")
def image_without_path(doc: Document) -> None:
    """A field says where it is."""
    del doc.fields[1]["path"]


@breaks("well")
def path_of_an_image_is_a_number(doc: Document) -> None:
    """The path of a field is a string."""
    doc.fields[1]["path"] = 1


@breaks("well")
def field_is_there_twice(doc: Document) -> None:
    """A field is listed once."""
    doc.fields[1] = dict(doc.fields[0])


@breaks("well", unseen=True)
def fields_of_one_path(doc: Document) -> None:
    """A field is listed once, whatever else is said of it."""
    doc.fields[1]["path"] = doc.fields[0]["path"]


@breaks("well")
def field_in_a_folder(doc: Document) -> None:
    """A field lies directly in its well."""
    doc.fields[1]["path"] = "fields/1"


@breaks("well")
def field_with_a_space(doc: Document) -> None:
    """The path of a field has no space."""
    doc.fields[1]["path"] = "field 1"


@breaks("well")
def field_without_letters(doc: Document) -> None:
    """The path of a field has at least one character."""
    doc.fields[1]["path"] = ""


@breaks("well", versions=OLD)
def field_with_a_dash(doc: Document) -> None:
    """The path of a field has letters and digits only."""
    doc.fields[1]["path"] = "field-1"


@breaks("well", versions="0.6")
def field_of_dots(doc: Document) -> None:
    """The path of a field is not dots alone."""
    doc.fields[1]["path"] = ".."


@breaks("well", versions="0.6")
def field_with_two_underscores(doc: Document) -> None:
    """The path of a field does not begin like a name that Zarr keeps for itself."""
    doc.fields[1]["path"] = "__field"


@breaks("well")
def acquisition_of_a_field_is_a_string(doc: Document) -> None:
    """The acquisition of a field is an integer."""
    doc.fields[1]["acquisition"] = "1"


@breaks("well")
def acquisition_of_a_field_is_a_fraction(doc: Document) -> None:
    """The acquisition of a field is an integer."""
    doc.fields[1]["acquisition"] = 1.5


@breaks("well", versions="0.4")
def version_of_a_well_is_a_number(doc: Document) -> None:
    """The version of a well is a string."""
    doc.ome["well"]["version"] = 0.4


@neglects("well", versions="0.4")
def well_without_version(doc: Document) -> None:
    """A well should say which version it is."""
    del doc.ome["well"]["version"]


# ---- the layout of bioformats2raw


@keeps("bf2raw")
def layout_of_bioformats2raw(doc: Document) -> None:
    """The third layout."""


@keeps("plate")
def layout_and_plate(doc: Document) -> None:
    """A plate may have the layout too."""
    doc.ome["bioformats2raw.layout"] = 3


@breaks("bf2raw")
def second_layout(doc: Document) -> None:
    """Only the third layout is described."""
    doc.ome["bioformats2raw.layout"] = 2


@breaks("bf2raw")
def layout_is_a_string(doc: Document) -> None:
    """The layout is a number."""
    doc.ome["bioformats2raw.layout"] = "3"


@breaks("plate")
def second_layout_of_a_plate(doc: Document) -> None:
    """Only the third layout is described, also for a plate."""
    doc.ome["bioformats2raw.layout"] = 2


@keeps("series")
def series(doc: Document) -> None:
    """Paths to images."""


@breaks("series")
def series_is_a_string(doc: Document) -> None:
    """The series is a list."""
    doc.ome["series"] = "0"


@breaks("series")
def series_of_numbers(doc: Document) -> None:
    """A path is a string."""
    doc.ome["series"] = [0, 1]
