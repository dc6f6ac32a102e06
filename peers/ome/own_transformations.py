"""Cases about coordinate systems, transformations and scenes, which came with version 0.6."""

from __future__ import annotations

import math

from .documents import SYSTEM, Document, axis
from .own import breaks, keeps, neglects

V = ("0.6",)

TURN = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
"""A quarter of a turn."""


# ---- the transformation of a level


@keeps(versions=V)
def level_of_identity(doc: Document) -> None:
    """A level may lie where its indices are."""
    del doc.datasets[1]
    del doc.outer()["transformations"]
    doc.outer()["type"] = "identity"


@keeps(versions=V)
def transformation_with_a_name(doc: Document) -> None:
    """A transformation may have a name."""
    doc.outer()["name"] = "to the stage"


@breaks(versions=V)
def two_transformations_of_a_level(doc: Document) -> None:
    """A level has one transformation; it may be a sequence."""
    between = {"input": {"path": "0"}, "output": {"name": SYSTEM}}
    first = {"type": "scale", "scale": [1.0] * 5}
    doc.datasets[0]["coordinateTransformations"] = [first | between, doc.outer()]


@breaks(versions=V)
def sequence_of_one(doc: Document) -> None:
    """The sequence of a level is a scale and a translation."""
    del doc.steps()[1]


@breaks(versions=V)
def sequence_of_three(doc: Document) -> None:
    """The sequence of a level is a scale and a translation, nothing more."""
    doc.steps().append({"type": "translation", "translation": [1.0] * 5})


@breaks(versions=V)
def sequence_with_a_rotation(doc: Document) -> None:
    """The sequence of a level is a scale and a translation, nothing else."""
    doc.steps()[1] = {"type": "rotation", "rotation": TURN}


@breaks(versions=V)
def level_without_input(doc: Document) -> None:
    """The transformation of a level says where it begins."""
    del doc.outer()["input"]


@breaks(versions=V)
def level_without_output(doc: Document) -> None:
    """The transformation of a level says where it ends."""
    del doc.outer()["output"]


@breaks(versions=V)
def input_is_a_string(doc: Document) -> None:
    """Where a transformation begins is an object; it was a string in drafts."""
    doc.outer()["input"] = "0"


@breaks(versions=V)
def output_is_a_string(doc: Document) -> None:
    """Where a transformation ends is an object; it was a string in drafts."""
    doc.outer()["output"] = SYSTEM


@breaks(versions=V)
def input_without_path(doc: Document) -> None:
    """The transformation of a level begins at its array."""
    doc.outer()["input"] = {"name": "array"}


@breaks(versions=V, unseen=True)
def input_of_another_level(doc: Document) -> None:
    """The transformation of a level begins at its own array."""
    doc.outer()["input"]["path"] = "1"


@breaks(versions=V)
def output_without_name(doc: Document) -> None:
    """The transformation of a level ends in a coordinate system with a name."""
    doc.outer()["output"] = {"path": "."}


@breaks(versions=V, unseen=True)
def output_that_is_not_there(doc: Document) -> None:
    """The transformation of a level ends in a coordinate system of the image."""
    for level in range(2):
        doc.outer(level)["output"]["name"] = "nowhere"


@breaks(versions=V, unseen=True)
def levels_in_different_systems(doc: Document) -> None:
    """The transformations of all levels end in the same coordinate system."""
    doc.second_system("tczyx", type="identity")
    doc.outer(1)["output"]["name"] = "other"


# ---- coordinate systems


@keeps(versions=V)
def axes_with_all_there_is(doc: Document) -> None:
    """An axis may have a long name, and say whether it is discrete."""
    doc.axes[1].update(discrete=True, longName="the wave length")
    doc.axes[0]["discrete"] = False


@breaks(versions=V)
def no_systems(doc: Document) -> None:
    """An image has coordinate systems."""
    del doc.multiscale["coordinateSystems"]


@breaks(versions=V)
def axes_in_the_old_place(doc: Document) -> None:
    """The axes belong to a coordinate system, not to the image."""
    doc.multiscale["axes"] = doc.multiscale.pop("coordinateSystems")[0]["axes"]


@breaks(versions=V)
def systems_are_empty(doc: Document) -> None:
    """An image has at least one coordinate system."""
    doc.multiscale["coordinateSystems"] = []


@breaks(versions=V)
def systems_are_no_list(doc: Document) -> None:
    """The coordinate systems are a list."""
    doc.multiscale["coordinateSystems"] = doc.systems[0]


@breaks(versions=V)
def system_without_name(doc: Document) -> None:
    """A coordinate system has a name."""
    del doc.systems[0]["name"]


@breaks(versions=V)
def system_with_an_empty_name(doc: Document) -> None:
    """The name of a coordinate system is not empty."""
    doc.systems[0]["name"] = ""
    for level in range(2):
        doc.outer(level)["output"]["name"] = ""


@breaks(versions=V, unseen=True)
def systems_of_one_name(doc: Document) -> None:
    """Two coordinate systems do not have the same name."""
    doc.second_system("tczyx", name=SYSTEM, type="identity")
    doc.systems[1]["axes"][4]["unit"] = "nanometer"


@breaks(versions=V)
def axis_with_an_empty_name(doc: Document) -> None:
    """The name of an axis is not empty."""
    doc.axes[0]["name"] = ""


@breaks(versions=V)
def discrete_is_a_string(doc: Document) -> None:
    """Whether an axis is discrete is true or false."""
    doc.axes[0]["discrete"] = "no"


@breaks(versions=V)
def long_name_is_a_number(doc: Document) -> None:
    """The long name of an axis is a string."""
    doc.axes[0]["longName"] = 1


@breaks(versions=V)
def unit_is_a_number(doc: Document) -> None:
    """The unit of an axis is a string."""
    doc.axes[4]["unit"] = 1e-6


@neglects(versions=V)
def system_without_connection(doc: Document) -> None:
    """Each coordinate system can be reached from each other; a scene further up may link it."""
    doc.systems.append({"name": "lonely", "axes": [axis(a) for a in "tczyx"]})


# ---- transformations between coordinate systems, each in order


@keeps(versions=V)
def link_by_identity(doc: Document) -> None:
    """The same axes under another name."""
    doc.second_system("tczyx", type="identity")


@keeps(versions=V, axes="zyx")
def link_by_scale(doc: Document) -> None:
    """Other units."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="scale", scale=[1000, 1000.0, 1000])


@keeps(versions=V, axes="zyx")
def link_by_translation(doc: Document) -> None:
    """Another origin."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="translation", translation=[-1, 0, 2.5])


@keeps(versions=V, axes="zyx")
def link_by_affine(doc: Document) -> None:
    """A matrix with a column for the offset."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="affine", affine=[[1, 0, 0.5, 9], [0, 2, 0, 0], [0, 0, 1, -3]])


@keeps(versions=V, axes="zyx")
def link_by_stored_affine(doc: Document) -> None:
    """A matrix that is an array."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="affine", path="coordinateTransformations/matrix")


@keeps(versions=V, axes="zyx")
def link_by_rotation(doc: Document) -> None:
    """A quarter of a turn."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="rotation", rotation=TURN)


@keeps(versions=V, axes="yx")
def link_by_a_turn_of_thirty_degrees(doc: Document) -> None:
    """A rotation whose numbers are rounded."""
    del doc.ome["omero"]
    c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)
    doc.second_system("yx", type="rotation", rotation=[[c, -s], [s, c]])


@keeps(versions=V, axes="zyx", noted=True)
def link_by_order_of_axes(doc: Document) -> None:
    """The axes the other way round."""
    del doc.ome["omero"]
    doc.second_system("xyz", type="mapAxis", mapAxis=[2, 1, 0])


@keeps(versions=V, axes="czyx")
def link_to_fewer_axes(doc: Document) -> None:
    """The channels are left out."""
    doc.second_system("zyx", type="projectAxis", droppedInputs=[0])


@keeps(versions=V, axes="zyx")
def link_to_more_axes(doc: Document) -> None:
    """Time is added."""
    del doc.ome["omero"]
    doc.second_system("tzyx", type="projectAxis", createdOutputs=[0])


@keeps(versions=V, axes="zyx")
def link_by_sequence(doc: Document) -> None:
    """One after the other."""
    del doc.ome["omero"]
    steps = [
        {"type": "scale", "scale": [2, 2, 2]},
        {"type": "rotation", "rotation": TURN},
        {"type": "translation", "translation": [1, 2, 3]},
    ]
    doc.second_system("zyx", type="sequence", transformations=steps)


@keeps(versions=V, axes="zyx")
def link_by_dimension(doc: Document) -> None:
    """Each axis for itself."""
    del doc.ome["omero"]
    parts = [_part([0], [0], "translation", [5.0]), _part([1, 2], [1, 2], "scale", [2.0, 3.0])]
    doc.second_system("zyx", type="byDimension", transformations=parts)


@keeps(versions=V, axes="zyx")
def link_in_both_directions(doc: Document) -> None:
    """A transformation and its inverse."""
    del doc.ome["omero"]
    forward = {"type": "displacements", "path": "coordinateTransformations/there"}
    inverse = {"type": "displacements", "path": "coordinateTransformations/back"}
    doc.second_system("zyx", type="bijection", forward=forward, inverse=inverse)


@keeps(versions=V, axes="zyx")
def link_by_displacements(doc: Document) -> None:
    """A field of vectors."""
    del doc.ome["omero"]
    field = "coordinateTransformations/field"
    doc.second_system("zyx", type="displacements", path=field, interpolation="linear")


@keeps(versions=V, axes="zyx")
def link_by_coordinates(doc: Document) -> None:
    """A field of positions."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="coordinates", path="coordinateTransformations/field")


@keeps(versions=V, axes="zyx")
def link_to_the_system_of_the_image(doc: Document) -> None:
    """It may be the output that is the image's own coordinate system."""
    del doc.ome["omero"]
    doc.second_system("zyx", type="identity")
    doc.extra["input"], doc.extra["output"] = doc.extra["output"], doc.extra["input"]


@keeps(versions=V, axes="zyx")
def link_to_labels(doc: Document) -> None:
    """The coordinate system of a label image of this image."""
    del doc.ome["omero"]
    doc.link(output={"name": SYSTEM, "path": "labels/cells"}, type="scale", scale=[2, 2, 2])


# ---- and out of order


def _part(inputs: list[int], outputs: list[int], kind: str, numbers: list[float]) -> dict[str, object]:
    inner = {"type": kind, kind: numbers}
    return {"inputAxes": inputs, "outputAxes": outputs, "transformation": inner}


@breaks(versions=V)
def link_without_input(doc: Document) -> None:
    """A transformation says where it begins."""
    doc.second_system("tczyx", type="identity")
    del doc.extra["input"]


@breaks(versions=V)
def link_without_output(doc: Document) -> None:
    """A transformation says where it ends."""
    doc.second_system("tczyx", type="identity")
    del doc.extra["output"]


@breaks(versions=V)
def link_to_a_path_alone(doc: Document) -> None:
    """A transformation ends in a coordinate system with a name."""
    doc.link(output={"path": "labels/cells"}, type="identity")


@breaks(versions=V, unseen=True)
def link_to_nowhere(doc: Document) -> None:
    """A coordinate system that is named without a path is one of the image."""
    doc.link(output={"name": "nowhere"}, type="identity")


@breaks(versions=V, unseen=True)
def link_between_others(doc: Document) -> None:
    """One end of a transformation is the image's own coordinate system."""
    doc.second_system("tczyx", type="identity")
    doc.second_system("tczyx", name="third", type="identity")
    doc.extra["input"] = {"name": "other"}


@breaks(versions=V, axes="zyx", unseen=True)
def affine_link_to_labels(doc: Document) -> None:
    """Labels differ from their image in scale and offset, in nothing else."""
    del doc.ome["omero"]
    matrix = [[1, 0, 0.5, 9], [0, 2, 0, 0], [0, 0, 1, -3]]
    doc.link(output={"name": SYSTEM, "path": "labels/cells"}, type="affine", affine=matrix)


@breaks(versions=V)
def link_without_type(doc: Document) -> None:
    """A transformation has a type."""
    doc.second_system("tczyx", type="identity")
    del doc.extra["type"]


@breaks(versions=V)
def link_of_unknown_type(doc: Document) -> None:
    """The types of transformations are those of the specification."""
    doc.second_system("tczyx", type="stretch", stretch=[1])


@breaks(versions=V, axes="zyx")
def link_by_scale_without_numbers(doc: Document) -> None:
    """A scale has its numbers beside it."""
    doc.second_system("zyx", type="scale")


@breaks(versions=V, axes="zyx")
def link_by_stored_scale(doc: Document) -> None:
    """A scale is no array."""
    doc.second_system("zyx", type="scale", path="coordinateTransformations/scale")


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_scale_of_two(doc: Document) -> None:
    """A scale has a number for each axis."""
    doc.second_system("zyx", type="scale", scale=[1, 2])


@breaks(versions=V, axes="zyx")
def link_by_stored_translation(doc: Document) -> None:
    """A translation is no array."""
    doc.second_system("zyx", type="translation", path="coordinateTransformations/offset")


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_translation_of_four(doc: Document) -> None:
    """A translation has a number for each axis."""
    doc.second_system("zyx", type="translation", translation=[1, 2, 3, 4])


@breaks(versions=V, axes="zyx", unseen=True)
def identity_of_other_axes(doc: Document) -> None:
    """Between coordinate systems of different size there is no identity."""
    doc.second_system("yx", type="identity")


@breaks(versions=V, axes="zyx")
def link_by_affine_without_matrix(doc: Document) -> None:
    """An affine transformation has a matrix, here or in an array."""
    doc.second_system("zyx", type="affine")


@breaks(versions=V, axes="zyx")
def link_by_affine_of_a_row(doc: Document) -> None:
    """The matrix of an affine transformation is a list of rows."""
    doc.second_system("zyx", type="affine", affine=[1, 0, 0, 9])


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_affine_without_offset(doc: Document) -> None:
    """The matrix of an affine transformation has a column more than there are axes."""
    doc.second_system("zyx", type="affine", affine=[[1, 0, 0], [0, 1, 0], [0, 0, 1]])


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_affine_with_a_last_row(doc: Document) -> None:
    """The last row of the matrix is left out."""
    square = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    doc.second_system("zyx", type="affine", affine=square)


@breaks(versions=V, axes="zyx")
def link_by_rotation_without_matrix(doc: Document) -> None:
    """A rotation has a matrix, here or in an array."""
    doc.second_system("zyx", type="rotation")


@breaks(versions=V, axes="zyx")
def link_by_rotation_that_is_not_square(doc: Document) -> None:
    """The matrix of a rotation is square."""
    doc.second_system("zyx", type="rotation", rotation=[[0, -1, 0], [1, 0, 0]])


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_rotation_of_two_axes(doc: Document) -> None:
    """The matrix of a rotation has a row for each axis."""
    doc.second_system("zyx", type="rotation", rotation=[[0, -1], [1, 0]])


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_rotation_that_stretches(doc: Document) -> None:
    """The rows of a rotation are of length one."""
    doc.second_system("zyx", type="rotation", rotation=[[0, -2, 0], [1, 0, 0], [0, 0, 1]])


@breaks(versions=V, axes="zyx", unseen=True)
def link_by_mirror(doc: Document) -> None:
    """The determinant of a rotation is one."""
    doc.second_system("zyx", type="rotation", rotation=[[-1, 0, 0], [0, 1, 0], [0, 0, 1]])


@breaks(versions=V, axes="zyx")
def order_of_axes_by_name(doc: Document) -> None:
    """The order of axes is a list of numbers."""
    doc.second_system("xyz", type="mapAxis", mapAxis={"x": "z", "y": "y", "z": "x"})


@breaks(versions=V, axes="zyx")
def order_of_axes_without_order(doc: Document) -> None:
    """The order of axes is there."""
    doc.second_system("xyz", type="mapAxis")


@breaks(versions=V, axes="zyx")
def order_with_an_axis_twice(doc: Document) -> None:
    """The order has each axis once."""
    doc.second_system("xyz", type="mapAxis", mapAxis=[2, 2, 0])


@breaks(versions=V, axes="zyx", unseen=True)
def order_with_an_axis_too_many(doc: Document) -> None:
    """The order has as many entries as there are axes."""
    doc.second_system("xyz", type="mapAxis", mapAxis=[2, 1, 0, 3])


@breaks(versions=V, axes="zyx", unseen=True)
def order_with_an_axis_that_is_not_there(doc: Document) -> None:
    """The order has the numbers of axes."""
    doc.second_system("xyz", type="mapAxis", mapAxis=[3, 1, 0])


@breaks(versions=V, axes="zyx")
def order_of_fractions(doc: Document) -> None:
    """The numbers of axes are integers."""
    doc.second_system("xyz", type="mapAxis", mapAxis=[1.5, 1, 0])


@breaks(versions=V, axes="czyx")
def projection_of_nothing(doc: Document) -> None:
    """A projection leaves axes out or adds some."""
    doc.second_system("zyx", type="projectAxis")


@breaks(versions=V, axes="czyx")
def projection_that_leaves_an_axis_out_twice(doc: Document) -> None:
    """An axis is left out once."""
    doc.second_system("zyx", type="projectAxis", droppedInputs=[0, 0])


@breaks(versions=V, axes="zyx")
def projection_that_adds_an_axis_twice(doc: Document) -> None:
    """An axis is added once."""
    doc.second_system("tzyx", type="projectAxis", createdOutputs=[0, 0])


@breaks(versions=V, axes="czyx")
def projection_of_an_axis_that_is_not_there(doc: Document) -> None:
    """What is left out is one of the axes."""
    doc.second_system("zyx", type="projectAxis", droppedInputs=[7])


@breaks(versions=V, axes="czyx", unseen=True)
def projection_to_the_wrong_number_of_axes(doc: Document) -> None:
    """What is left are the axes of the output."""
    doc.second_system("czyx", type="projectAxis", droppedInputs=[0])


@breaks(versions=V, axes="zyx", unseen=True)
def sequence_of_nothing(doc: Document) -> None:
    """A sequence has at least one member."""
    doc.second_system("zyx", type="sequence", transformations=[])


@breaks(versions=V, axes="zyx")
def sequence_without_members(doc: Document) -> None:
    """A sequence lists its members."""
    doc.second_system("zyx", type="sequence")


@breaks(versions=V, axes="zyx")
def sequence_with_a_wrong_member(doc: Document) -> None:
    """The members of a sequence obey the rules of their types."""
    doc.second_system("zyx", type="sequence", transformations=[{"type": "scale"}])


@breaks(versions=V, axes="zyx", unseen=True)
def sequence_with_a_short_member(doc: Document) -> None:
    """The members of a sequence fit the axes."""
    steps = [{"type": "scale", "scale": [1, 2]}]
    doc.second_system("zyx", type="sequence", transformations=steps)


@breaks(versions=V, axes="zyx")
def part_without_axes(doc: Document) -> None:
    """A part of a transformation by dimension says which axes it is about."""
    part = _part([0, 1, 2], [0, 1, 2], "scale", [1, 2, 3])
    del part["inputAxes"]
    doc.second_system("zyx", type="byDimension", transformations=[part])


@breaks(versions=V, axes="zyx")
def part_with_names_of_axes(doc: Document) -> None:
    """The axes of a part are numbers; they were names in drafts."""
    part = _part([0, 1, 2], [0, 1, 2], "scale", [1, 2, 3])
    part["inputAxes"] = ["z", "y", "x"]
    doc.second_system("zyx", type="byDimension", transformations=[part])


@breaks(versions=V, axes="zyx", unseen=True)
def parts_with_the_same_output(doc: Document) -> None:
    """An axis of the output comes from one part."""
    parts = [_part([0, 1], [0, 1], "scale", [1, 2]), _part([1, 2], [1, 2], "scale", [1, 2])]
    doc.second_system("zyx", type="byDimension", transformations=parts)


@breaks(versions=V, axes="zyx", unseen=True)
def parts_without_an_output(doc: Document) -> None:
    """Each axis of the output comes from some part."""
    parts = [_part([0, 1], [0, 1], "scale", [1, 2])]
    doc.second_system("zyx", type="byDimension", transformations=parts)


@breaks(versions=V, axes="zyx", unseen=True)
def parts_with_an_axis_that_is_not_there(doc: Document) -> None:
    """The axes of a part are those of the coordinate systems."""
    parts = [_part([0, 1, 2], [0, 1, 3], "scale", [1, 2, 3])]
    doc.second_system("zyx", type="byDimension", transformations=parts)


@breaks(versions=V, axes="zyx", unseen=True)
def part_of_another_size(doc: Document) -> None:
    """A part has a number for each of its axes."""
    parts = [_part([0, 1, 2], [0, 1, 2], "scale", [1, 2])]
    doc.second_system("zyx", type="byDimension", transformations=parts)


@breaks(versions=V, axes="zyx")
def one_direction_alone(doc: Document) -> None:
    """A transformation in both directions has both."""
    doc.second_system("zyx", type="bijection", forward={"type": "identity"})


@breaks(versions=V, axes="zyx")
def inverse_out_of_order(doc: Document) -> None:
    """Both directions obey the rules of their types."""
    doc.second_system(
        "zyx", type="bijection", forward={"type": "identity"}, inverse={"type": "affine"}
    )


@breaks(versions=V, axes="zyx")
def displacements_without_path(doc: Document) -> None:
    """A field of vectors is an image somewhere."""
    doc.second_system("zyx", type="displacements", interpolation="linear")


@breaks(versions=V, axes="zyx")
def coordinates_at_a_number(doc: Document) -> None:
    """The path to a field is a string."""
    doc.second_system("zyx", type="coordinates", path=3)


@breaks(versions=V)
def links_are_empty(doc: Document) -> None:
    """If there are more transformations, there is at least one."""
    doc.multiscale["coordinateTransformations"] = []


# ---- scenes


@keeps("scene", versions=V)
def scene(doc: Document) -> None:
    """Two images in one world."""


@keeps("scene", versions=V)
def scene_without_systems(doc: Document) -> None:
    """Two images, one in the coordinate system of the other."""
    del doc.scene["coordinateSystems"]
    (first, _) = doc.scene["coordinateTransformations"]
    doc.scene["coordinateTransformations"] = [
        first | {"output": {"name": SYSTEM, "path": "tile1"}}
    ]


@breaks("scene", versions=V)
def scene_without_transformations(doc: Document) -> None:
    """A scene says how its images lie."""
    del doc.scene["coordinateTransformations"]


@breaks("scene", versions=V)
def scene_of_no_transformation(doc: Document) -> None:
    """A scene says how its images lie."""
    doc.scene["coordinateTransformations"] = []
    del doc.scene["coordinateSystems"]


@breaks("scene", versions=V)
def scene_is_a_list(doc: Document) -> None:
    """A scene is an object."""
    doc.ome["scene"] = doc.scene["coordinateTransformations"]


@breaks("scene", versions=V)
def scene_without_version(doc: Document) -> None:
    """The namespace says which version it is."""
    del doc.ome["version"]


@breaks("scene", versions=V)
def scene_with_a_string_as_input(doc: Document) -> None:
    """Where a transformation begins is an object."""
    doc.scene["coordinateTransformations"][0]["input"] = "tile0"


@breaks("scene", versions=V)
def scene_with_an_input_without_name(doc: Document) -> None:
    """Both ends of a transformation in a scene are coordinate systems with names."""
    doc.scene["coordinateTransformations"][0]["input"] = {"path": "tile0"}


@breaks("scene", versions=V)
def scene_with_an_output_without_name(doc: Document) -> None:
    """Both ends of a transformation in a scene are coordinate systems with names."""
    doc.scene["coordinateTransformations"][0]["output"] = {"path": "tile1"}


@breaks("scene", versions=V)
def scene_without_output(doc: Document) -> None:
    """A transformation says where it ends."""
    del doc.scene["coordinateTransformations"][0]["output"]


@breaks("scene", versions=V)
def scene_with_a_transformation_out_of_order(doc: Document) -> None:
    """The transformations of a scene obey the rules of their types."""
    del doc.scene["coordinateTransformations"][0]["translation"]


@breaks("scene", versions=V)
def scene_with_a_system_without_axes(doc: Document) -> None:
    """The coordinate systems of a scene obey the rules for those of images."""
    del doc.scene["coordinateSystems"][0]["axes"]


@breaks("scene", versions=V, unseen=True)
def scene_with_an_output_that_is_not_there(doc: Document) -> None:
    """A coordinate system that is named without a path is one of the scene."""
    doc.scene["coordinateTransformations"][0]["output"]["name"] = "nowhere"


@breaks("scene", versions=V, unseen=True)
def scene_with_systems_of_one_name(doc: Document) -> None:
    """Two coordinate systems do not have the same name."""
    other = {"name": "world", "axes": [axis(a) for a in "czyx"]}
    doc.scene["coordinateSystems"].append(other)
