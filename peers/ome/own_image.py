"""Cases about images and labels, in all versions."""

from __future__ import annotations

from .documents import Document, axis
from .own import breaks, keeps, neglects

OLD = ("0.4", "0.5")
"""The versions with axes and transformations in their first form."""

NEW = ("0.5", "0.6")
"""The versions with a namespace."""


@keeps()
def nothing(doc: Document) -> None:
    """All five axes, two levels, a window and a colour for each channel."""


@keeps(axes="yx", levels=1)
def two_axes(doc: Document) -> None:
    """Two axes of space are enough, and so is one level."""
    del doc.ome["omero"]


@keeps(axes="zyx")
def three_axes_of_space(doc: Document) -> None:
    """There may be three axes of space."""
    del doc.ome["omero"]


@keeps(axes="cyx")
def channels_without_time(doc: Document) -> None:
    """An axis that is optional may be missing while the next one is there."""


@keeps(axes="tyx", levels=4)
def time_without_channels(doc: Document) -> None:
    """An axis that is optional may be missing while the one before it is there."""
    del doc.ome["omero"]


@keeps(axes="czyx", noted=True)
def axis_of_another_type(doc: Document) -> None:
    """In place of the channels there may be an axis of a type that the specification does not know."""
    doc.axes[0] = {"name": "lifetime", "type": "lifetime", "unit": "second"}
    del doc.ome["omero"]


@keeps()
def names_of_axes_are_free(doc: Document) -> None:
    """What an axis is called is up to its author."""
    for n, described in enumerate(doc.axes):
        described["name"] = f"dimension ü{n}"


@keeps()
def several_multiscales(doc: Document) -> None:
    """A group may hold more than one multiscale."""
    doc.ome["multiscales"].append(doc.new_multiscale("tczyx", 3, name="again"))


@keeps()
def unknown_keys(doc: Document) -> None:
    """What the specification does not know is no mistake."""
    doc.ome["multiscales"][0]["vendor"] = {"a": [1, None]}
    doc.datasets[0]["vendor"] = "b"
    doc.attributes["vendor"] = {"multiscales": 5}


@keeps(noted=True)
def level_without_translation(doc: Document) -> None:
    """The offset of a level is optional."""
    if doc.version == "0.6":
        outer = doc.outer()
        outer["type"], outer["scale"] = "scale", outer.pop("transformations")[0]["scale"]
    else:
        del doc.steps()[1]


@keeps(noted=True)
def whole_numbers(doc: Document) -> None:
    """A number of a transformation may be written as an integer."""
    doc.steps(0)[0]["scale"] = [1, 1, 3, 2, 2]
    doc.steps(1)[0]["scale"] = [1, 1, 6, 4, 4]


@keeps()
def paths_in_folders(doc: Document) -> None:
    """A level may lie in a folder, and be called anything."""
    for n, dataset in enumerate(doc.datasets):
        dataset["path"] = f"levels/scale {n}"
        if doc.version == "0.6":
            doc.outer(n)["input"]["path"] = dataset["path"]


@keeps(versions=OLD)
def transformation_of_the_whole(doc: Document) -> None:
    """What holds for all levels may be said once, after what holds for each."""
    doc.multiscale["coordinateTransformations"] = [{"type": "scale", "scale": [0.1, 1, 1, 1, 1]}]


# ---- what an image consists of


@breaks()
def multiscales_are_empty(doc: Document) -> None:
    """An image has at least one multiscale."""
    doc.ome["multiscales"] = []


@breaks()
def multiscales_are_no_list(doc: Document) -> None:
    """The multiscales are a list."""
    doc.ome["multiscales"] = {"0": doc.multiscale}


@breaks()
def multiscale_is_no_object(doc: Document) -> None:
    """A multiscale is an object."""
    doc.ome["multiscales"] = ["0"]


@breaks()
def no_datasets(doc: Document) -> None:
    """A multiscale lists its levels."""
    del doc.multiscale["datasets"]


@breaks()
def datasets_are_empty(doc: Document) -> None:
    """A multiscale has at least one level."""
    doc.multiscale["datasets"] = []


@breaks()
def datasets_are_no_list(doc: Document) -> None:
    """The levels are a list."""
    doc.multiscale["datasets"] = {"path": "0"}


@breaks()
def level_without_path(doc: Document) -> None:
    """A level says where its array is."""
    del doc.datasets[1]["path"]


@breaks()
def path_is_a_number(doc: Document) -> None:
    """The path of a level is a string."""
    doc.datasets[0]["path"] = 0


@breaks()
def level_without_transformations(doc: Document) -> None:
    """A level says where its voxels lie."""
    del doc.datasets[0]["coordinateTransformations"]


@breaks()
def transformations_are_empty(doc: Document) -> None:
    """A level has a scale, so its transformations cannot be empty."""
    doc.datasets[1]["coordinateTransformations"] = []


@breaks()
def transformations_are_no_list(doc: Document) -> None:
    """The transformations of a level are a list."""
    doc.datasets[0]["coordinateTransformations"] = doc.steps()[0]


# ---- axes


@breaks()
def no_axes(doc: Document) -> None:
    """The axes are described."""
    del (doc.systems[0] if doc.version == "0.6" else doc.multiscale)["axes"]


@breaks()
def axes_are_empty(doc: Document) -> None:
    """There are at least two axes."""
    doc.axes = []


@breaks()
def axes_are_strings(doc: Document) -> None:
    """An axis is an object; it was a string in version 0.3."""
    doc.axes = ["t", "c", "z", "y", "x"]


@breaks(axes="yx")
def one_axis(doc: Document) -> None:
    """There are at least two axes."""
    del doc.ome["omero"]
    del doc.axes[0]
    for level in range(2):
        doc.steps(level)[0]["scale"] = [1.0]
        doc.steps(level)[1]["translation"] = [0.0]


@breaks()
def six_axes(doc: Document) -> None:
    """There are at most five axes."""
    doc.axes.insert(1, {"name": "lifetime", "type": "lifetime"})
    for level in range(2):
        doc.steps(level)[0]["scale"].append(1.0)
        doc.steps(level)[1]["translation"].append(0.0)


@breaks()
def axis_without_name(doc: Document) -> None:
    """An axis has a name."""
    del doc.axes[2]["name"]


@breaks()
def name_of_an_axis_is_a_number(doc: Document) -> None:
    """The name of an axis is a string."""
    doc.axes[2]["name"] = 2


@breaks()
def axis_is_there_twice(doc: Document) -> None:
    """Two axes do not have the same name; these agree in everything."""
    doc.axes[3] = dict(doc.axes[4])


@breaks(unseen=True)
def axes_of_one_name(doc: Document) -> None:
    """Two axes do not have the same name; these differ in their units."""
    doc.axes[3] = axis("x") | {"unit": "nanometer"}


@breaks()
def type_of_an_axis_is_a_number(doc: Document) -> None:
    """The type of an axis is a string."""
    doc.axes[1]["type"] = 1


@breaks(axes="cyx")
def one_axis_of_space(doc: Document) -> None:
    """There are two or three axes of space."""
    doc.axes[1]["type"] = "time"


@breaks(axes="cyx")
def no_axis_of_space(doc: Document) -> None:
    """There are two or three axes of space."""
    for described in doc.axes:
        described["type"] = "channel"


@breaks(axes="czyx")
def four_axes_of_space(doc: Document) -> None:
    """There are two or three axes of space."""
    doc.axes[0] = {"name": "w", "type": "space", "unit": "micrometer"}


@breaks(axes="tcyx", unseen=True)
def two_axes_of_time(doc: Document) -> None:
    """There is at most one axis of time."""
    doc.axes[1] = {"name": "delay", "type": "time", "unit": "second"}


@breaks(axes="tcyx", unseen=True)
def two_axes_of_channels(doc: Document) -> None:
    """There is at most one axis of channels."""
    doc.axes[0] = {"name": "polarisation", "type": "channel"}


@breaks(axes="tcyx", unseen=True)
def channels_beside_another_type(doc: Document) -> None:
    """Channels or one axis of another type, not both."""
    doc.axes[0] = {"name": "lifetime", "type": "lifetime"}


@breaks(unseen=True)
def channels_before_time(doc: Document) -> None:
    """The axis of time comes first."""
    doc.axes[0], doc.axes[1] = doc.axes[1], doc.axes[0]


@breaks(axes="cyx", unseen=True)
def space_before_channels(doc: Document) -> None:
    """The axes of space come last."""
    doc.axes.append(doc.axes.pop(0))


@breaks(axes="tzyx", unseen=True)
def time_after_space(doc: Document) -> None:
    """The axis of time comes first."""
    doc.axes.append(doc.axes.pop(0))


@breaks(axes="zcyx", unseen=True)
def channels_among_space(doc: Document) -> None:
    """The axes of space come after the channels, all of them."""


# ---- the transformations of a level


@breaks()
def no_scale(doc: Document) -> None:
    """A level has a scale."""
    doc.datasets[0]["coordinateTransformations"] = [
        {"type": "translation", "translation": [0.0] * 5}
        | ({"input": {"path": "0"}, "output": {"name": "physical"}} if doc.version == "0.6" else {})
    ]


@breaks(unseen="0.6")
def two_scales(doc: Document) -> None:
    """A level has one scale."""
    doc.steps()[1] = {"type": "scale", "scale": [2.0] * 5}


@breaks(unseen=OLD)
def two_translations(doc: Document) -> None:
    """A level has at most one translation."""
    doc.steps().append({"type": "translation", "translation": [1.0] * 5})


@breaks(unseen=True)
def translation_before_scale(doc: Document) -> None:
    """The offset is in physical units, so it comes after the scale."""
    doc.steps().reverse()


@breaks(unseen="0.6")
def transformation_without_type(doc: Document) -> None:
    """A transformation has a type."""
    del doc.steps()[1]["type"]
    if doc.version == "0.6":
        del doc.outer()["type"]


@breaks()
def transformation_of_unknown_type(doc: Document) -> None:
    """The types of transformations are those of the specification."""
    step = {"type": "stretch", "stretch": [1.0] * 5}
    if doc.version == "0.6":
        doc.outer().update(step)
    else:
        doc.steps().append(step)


@breaks()
def affine_level(doc: Document) -> None:
    """The levels of an image differ in scale and offset, in nothing else."""
    step = {"type": "affine", "affine": [[float(n == m) for m in range(6)] for n in range(5)]}
    if doc.version == "0.6":
        doc.outer().update(step)
    else:
        doc.steps().append(step)


@breaks()
def scale_without_numbers(doc: Document) -> None:
    """A scale has its numbers beside it."""
    del doc.steps()[0]["scale"]


@breaks()
def scale_of_strings(doc: Document) -> None:
    """The numbers of a scale are numbers."""
    doc.steps()[0]["scale"] = ["1", "1", "1", "1", "1"]


@breaks()
def scale_is_a_number(doc: Document) -> None:
    """A scale has a number for each axis."""
    doc.steps()[0]["scale"] = 0.5


@breaks(unseen=True)
def scale_is_too_short(doc: Document) -> None:
    """A scale has a number for each axis."""
    doc.steps()[0]["scale"] = [0.5] * 4


@breaks(unseen=True)
def scale_is_too_long(doc: Document) -> None:
    """A scale has a number for each axis, also in the coarsest level."""
    doc.steps(1)[0]["scale"] = [0.5] * 6


@breaks(unseen=True)
def translation_is_too_short(doc: Document) -> None:
    """A translation has a number for each axis."""
    doc.steps(1)[1]["translation"] = [0.5] * 2


@breaks()
def translation_of_nulls(doc: Document) -> None:
    """The numbers of a translation are numbers."""
    doc.steps(1)[1]["translation"] = [None] * 5


@breaks(versions=OLD)
def translation_of_the_whole_alone(doc: Document) -> None:
    """The transformations of all levels obey the rules of those of one: there is a scale."""
    doc.multiscale["coordinateTransformations"] = [{"type": "translation", "translation": [0.0] * 5}]


@breaks(versions=OLD, unseen=True)
def scale_of_the_whole_is_too_short(doc: Document) -> None:
    """The transformations of all levels obey the rules of those of one: a number for each axis."""
    doc.multiscale["coordinateTransformations"] = [{"type": "scale", "scale": [1.0] * 4}]


# ---- channels


@breaks()
def omero_without_channels(doc: Document) -> None:
    """What omero says is about channels."""
    del doc.ome["omero"]["channels"]


@breaks()
def channels_are_no_list(doc: Document) -> None:
    """The channels are a list."""
    doc.ome["omero"]["channels"] = {"0": doc.channel}


@breaks(unseen=NEW)
def channel_without_color(doc: Document) -> None:
    """A channel has a colour."""
    del doc.channel["color"]


@breaks()
def color_is_a_number(doc: Document) -> None:
    """A colour is a string."""
    doc.channel["color"] = 255


@breaks(unseen=True)
def color_of_five_digits(doc: Document) -> None:
    """A colour has six digits."""
    doc.channel["color"] = "00FF0"


@breaks(unseen=True)
def color_with_a_hash(doc: Document) -> None:
    """A colour has six digits and nothing else."""
    doc.channel["color"] = "#00FF00"


@breaks(unseen=True)
def color_by_name(doc: Document) -> None:
    """The digits of a colour are hexadecimal."""
    doc.channel["color"] = "yellow"


@breaks(unseen=NEW)
def channel_without_window(doc: Document) -> None:
    """A channel has a window."""
    del doc.channel["window"]


@breaks()
def window_without_start(doc: Document) -> None:
    """A window says where it begins."""
    del doc.channel["window"]["start"]


@breaks()
def window_without_end(doc: Document) -> None:
    """A window says where it ends."""
    del doc.channel["window"]["end"]


@breaks()
def window_without_min(doc: Document) -> None:
    """A window says what the least value is."""
    del doc.channel["window"]["min"]


@breaks()
def window_without_max(doc: Document) -> None:
    """A window says what the greatest value is."""
    del doc.channel["window"]["max"]


@breaks()
def window_of_strings(doc: Document) -> None:
    """The values of a window are numbers."""
    doc.channel["window"]["max"] = "65535"


# ---- versions


@breaks(versions=NEW)
def no_version(doc: Document) -> None:
    """The namespace says which version it is."""
    del doc.ome["version"]


@breaks(versions=NEW)
def version_is_a_number(doc: Document) -> None:
    """The version is a string."""
    doc.ome["version"] = float(doc.version)


@breaks(versions="0.4")
def version_of_a_multiscale_is_a_number(doc: Document) -> None:
    """The version of a multiscale is a string."""
    doc.multiscale["version"] = 0.4


@keeps(versions="0.6")
def version_of_a_candidate(doc: Document) -> None:
    """The release candidate of version 0.6 has the same rules."""
    doc.ome["version"] = "0.6rc0"


# ---- what should be there


@neglects()
def multiscale_without_name(doc: Document) -> None:
    """A multiscale should have a name."""
    del doc.multiscale["name"]


@neglects()
def multiscale_without_type(doc: Document) -> None:
    """A multiscale should say how its levels were made."""
    del doc.multiscale["type"]


@neglects()
def multiscale_without_metadata(doc: Document) -> None:
    """A multiscale should say with which options its levels were made."""
    del doc.multiscale["metadata"]


@neglects(versions="0.4")
def multiscale_without_version(doc: Document) -> None:
    """A multiscale should say which version it is."""
    del doc.multiscale["version"]


@neglects(axes="cyx")
def axis_without_type(doc: Document) -> None:
    """An axis should have a type."""
    del doc.axes[0]["type"]
    del doc.ome["omero"]


@neglects()
def axis_of_space_without_unit(doc: Document) -> None:
    """An axis should have a unit."""
    del doc.axes[4]["unit"]


@neglects()
def unit_that_nobody_knows(doc: Document) -> None:
    """A unit should be one of those that are listed."""
    doc.axes[4]["unit"] = "micron"


@neglects()
def unit_of_another_type(doc: Document) -> None:
    """The unit of an axis of time should be one of time."""
    doc.axes[0]["unit"] = "micrometer"


@neglects(axes="xyz")
def axes_in_the_order_of_the_mathematician(doc: Document) -> None:
    """The axes of space should be in the order z, y, x."""
    del doc.ome["omero"]


# ---- label images


@keeps("label", axes="zyx")
def label_image(doc: Document) -> None:
    """Colours, properties and a source, all in order."""


@keeps("label", axes="zyx")
def label_image_with_few_words(doc: Document) -> None:
    """Properties and source are optional, and so is the colour of a label."""
    del doc.label["properties"], doc.label["source"]
    doc.label["colors"] = [{"label-value": 7}, {"label-value": -1, "rgba": [1, 2, 3, 255], "name": "b"}]


@breaks("label", axes="zyx")
def colors_are_empty(doc: Document) -> None:
    """If there are colours, they are about labels."""
    doc.label["colors"] = []


@breaks("label", axes="zyx")
def colors_are_no_list(doc: Document) -> None:
    """The colours are a list."""
    doc.label["colors"] = {"1": [0, 0, 0, 0]}


@breaks("label", axes="zyx")
def color_without_label(doc: Document) -> None:
    """A colour says which label it is for."""
    del doc.label["colors"][1]["label-value"]


@breaks("label", axes="zyx")
def color_for_a_name(doc: Document) -> None:
    """A label is an integer."""
    doc.label["colors"][1]["label-value"] = "1"


@breaks("label", axes="zyx", unseen=True)
def color_for_a_fraction(doc: Document) -> None:
    """A label is an integer."""
    doc.label["colors"][1]["label-value"] = 1.5


@breaks("label", axes="zyx")
def color_of_three_parts(doc: Document) -> None:
    """A colour is red, green, blue and alpha."""
    doc.label["colors"][1]["rgba"] = [1, 2, 3]


@breaks("label", axes="zyx")
def color_of_fractions(doc: Document) -> None:
    """The parts of a colour are integers."""
    doc.label["colors"][1]["rgba"] = [0.5, 0.5, 0.5, 0.5]


@breaks("label", axes="zyx")
def color_above_255(doc: Document) -> None:
    """The parts of a colour are at most 255."""
    doc.label["colors"][1]["rgba"] = [0, 0, 0, 256]


@breaks("label", axes="zyx")
def color_below_zero(doc: Document) -> None:
    """The parts of a colour are at least 0."""
    doc.label["colors"][1]["rgba"] = [0, -1, 0, 255]


@breaks("label", axes="zyx", unseen=True, versions="0.4")
def two_colors_for_a_label(doc: Document) -> None:
    """A label has one colour."""
    doc.label["colors"][1]["label-value"] = 2


@breaks("label", axes="zyx")
def a_color_is_there_twice(doc: Document) -> None:
    """A label has one colour; here it has the same one twice."""
    doc.label["colors"].append(dict(doc.label["colors"][0]))


@breaks("label", axes="zyx")
def properties_are_empty(doc: Document) -> None:
    """If there are properties, they are about labels."""
    doc.label["properties"] = []


@breaks("label", axes="zyx")
def properties_without_label(doc: Document) -> None:
    """Properties say which label they are of."""
    del doc.label["properties"][1]["label-value"]


@breaks("label", axes="zyx")
def properties_of_a_fraction(doc: Document) -> None:
    """A label is an integer."""
    doc.label["properties"][1]["label-value"] = 0.5


@breaks("label", axes="zyx")
def source_is_a_string(doc: Document) -> None:
    """The source is an object."""
    doc.label["source"] = "../../"


@breaks("label", axes="zyx")
def source_image_is_a_number(doc: Document) -> None:
    """The path to the source is a string."""
    doc.label["source"] = {"image": 5}


@breaks("label", axes="zyx")
def image_label_is_a_list(doc: Document) -> None:
    """What is said of the labels is an object."""
    doc.ome["image-label"] = [doc.label]


@breaks("label", axes="zyx")
def label_image_without_levels(doc: Document) -> None:
    """A label image is an image, and obeys its rules."""
    doc.multiscale["datasets"] = []


@neglects("label", axes="zyx")
def label_image_without_colors(doc: Document) -> None:
    """A label image should say how to show its labels."""
    del doc.label["colors"]


@neglects("label", axes="zyx", versions="0.4")
def label_image_without_version(doc: Document) -> None:
    """What is said of the labels should have a version."""
    del doc.label["version"]


# ---- the list of labels


@keeps("labels")
def list_of_labels(doc: Document) -> None:
    """Paths to label images, also in folders."""


@breaks("labels", unseen=True)
def list_of_labels_is_no_list(doc: Document) -> None:
    """The labels are a list."""
    doc.ome["labels"] = "cells"


@breaks("labels", unseen=True)
def label_is_a_number(doc: Document) -> None:
    """A path is a string."""
    doc.ome["labels"] = ["cells", 1]
