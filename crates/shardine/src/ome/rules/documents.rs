//! Documents for tests: valid ones of every version, and any others.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::ome::OmeRelease;

/// What a document is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Image,
    Label,
    Plate,
    Well,
    Labels,
    Layout,
    Series,
    Scene,
}

const AXES: [&str; 7] = ["yx", "zyx", "cyx", "tyx", "czyx", "tzyx", "tczyx"];

/// How a valid document is made.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub release: OmeRelease,
    pub kind: Kind,
    axes: &'static str,
    levels: usize,
    is_translated: bool,
    names: Vec<String>,
}

pub fn recipe() -> impl Strategy<Value = Recipe> {
    let kinds = [
        Kind::Image,
        Kind::Label,
        Kind::Plate,
        Kind::Well,
        Kind::Labels,
        Kind::Layout,
        Kind::Series,
        Kind::Scene,
    ];
    let names = prop::collection::btree_set("[a-z]{1,3}[0-9]{0,2}", 2..5);
    let choices = (
        prop::sample::select(OmeRelease::ALL.to_vec()),
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(AXES.to_vec()),
        1..5usize,
        any::<bool>(),
        names,
    );
    let made = choices.prop_map(|(release, kind, axes, levels, is_translated, names)| {
        // Up to 0.2 there are always five.
        let axes = if release < OmeRelease::V0_3 { "tczyx" } else { axes };
        Recipe { release, kind, axes, levels, is_translated, names: names.into_iter().collect() }
    });
    made.prop_filter("only 0.6 has scenes", |recipe| {
        recipe.kind != Kind::Scene || recipe.release >= OmeRelease::V0_6
    })
}

impl Recipe {
    fn axes(&self) -> Value {
        let axis = |name: char| match name {
            't' => json!({"name": "t", "type": "time", "unit": "second"}),
            'c' => json!({"name": "c", "type": "channel"}),
            name => json!({"name": name, "type": "space", "unit": "micrometer"}),
        };
        self.axes.chars().map(axis).collect()
    }

    fn level(&self, number: usize) -> Value {
        let path = format!("s{number}");
        let rank = self.axes.len();
        let scale = json!({"type": "scale", "scale": vec![0.5 * (1 << number) as f64; rank]});
        let translation = json!({"type": "translation", "translation": vec![0.25; rank]});
        let mut level = json!({"path": path});
        level["coordinateTransformations"] = match (self.release, self.is_translated) {
            (release, _) if release < OmeRelease::V0_4 => return level,
            (OmeRelease::V0_4 | OmeRelease::V0_5, true) => json!([scale, translation]),
            (OmeRelease::V0_4 | OmeRelease::V0_5, false) => json!([scale]),
            (_, is_translated) => {
                let mut one = match is_translated {
                    true => json!({"type": "sequence", "transformations": [scale, translation]}),
                    false => scale,
                };
                one["input"] = json!({"path": path});
                one["output"] = json!({"name": "physical"});
                json!([one])
            }
        };
        level
    }

    fn image(&self) -> Value {
        let levels: Vec<Value> = (0..self.levels).map(|number| self.level(number)).collect();
        let mut image =
            json!({"name": "image", "type": "mean", "metadata": {}, "datasets": levels});
        match self.release {
            OmeRelease::V0_1 | OmeRelease::V0_2 => {}
            OmeRelease::V0_3 => {
                image["axes"] = self.axes.chars().map(|name| json!(name)).collect();
            }
            OmeRelease::V0_4 | OmeRelease::V0_5 => image["axes"] = self.axes(),
            _ => {
                let system = |name: &str| json!({"name": name, "axes": self.axes()});
                image["coordinateSystems"] = json!([system("physical"), system("world")]);
                image["coordinateTransformations"] = json!([{
                    "type": "scale", "scale": vec![2; self.axes.len()],
                    "input": {"name": "physical"}, "output": {"name": "world"}}]);
            }
        }
        image
    }

    fn omero(&self) -> Value {
        let window = json!({"min": 0, "max": 65535, "start": 10, "end": 1500.5});
        json!({"channels": [{"color": "00FF7f", "label": "c", "active": true, "window": window}]})
    }

    /// The members of the metadata.
    fn members(&self) -> Map<String, Value> {
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| {
            members.insert(name.to_owned(), value);
        };
        match self.kind {
            Kind::Image => {
                add("multiscales", json!([self.image()]));
                add("omero", self.omero());
            }
            Kind::Label => {
                add("multiscales", json!([self.image()]));
                let source = json!({"image": "../../"});
                let colors = json!([{"label-value": 1, "rgba": [0, 0, 255, 128]},
                    {"label-value": 2}]);
                let properties = json!([{"label-value": 1, "area": 5}, {"label-value": 2}]);
                let label = json!({"colors": colors, "properties": properties, "source": source});
                add("image-label", label);
            }
            Kind::Plate => {
                let named = |name: &String| json!({"name": name});
                let rows: Value = self.names.iter().map(named).collect();
                let columns = json!([{"name": "1"}, {"name": "2"}]);
                let well = |(row, name): (usize, &String)| {
                    let path = format!("{name}/2");
                    json!({"path": path, "rowIndex": row, "columnIndex": 1})
                };
                let wells: Value = self.names.iter().enumerate().map(well).collect();
                let acquisitions = json!([
                    {"id": 0, "name": "a", "maximumfieldcount": 1, "starttime": 5, "endtime": 6}]);
                add(
                    "plate",
                    json!({
                    "name": "plate", "rows": rows, "columns": columns, "wells": wells,
                    "field_count": 1, "acquisitions": acquisitions}),
                );
            }
            Kind::Well => {
                let field = |name: &String| json!({"path": name, "acquisition": 0});
                let images: Value = self.names.iter().map(field).collect();
                add("well", json!({"images": images}));
            }
            Kind::Labels => add("labels", json!(self.names)),
            Kind::Layout => add("bioformats2raw.layout", json!(3)),
            Kind::Series => add("series", json!(self.names)),
            Kind::Scene => {
                let link = |name: &String| {
                    json!({
                    "type": "identity", "input": {"path": name, "name": "physical"},
                    "output": {"name": "world"}})
                };
                let all: Value = self.names.iter().map(link).collect();
                let system = json!({"name": "world", "axes": self.axes()});
                let scene =
                    json!({"coordinateSystems": [system], "coordinateTransformations": all});
                add("scene", scene);
            }
        }
        members
    }

    pub fn attributes(&self) -> Map<String, Value> {
        let mut members = self.members();
        let version = json!(self.release.number());
        if self.release.is_zarr3() {
            members.insert("version".to_owned(), version);
            return [("ome".to_owned(), Value::Object(members))].into_iter().collect();
        }
        for name in ["plate", "well", "image-label"] {
            if let Some(member) = members.get_mut(name) {
                member["version"] = version.clone();
            }
        }
        if let Some(images) = members.get_mut("multiscales") {
            images[0]["version"] = version;
        }
        members
    }
}

/// Any JSON, with names that mean something.
pub fn arbitrary() -> impl Strategy<Value = Value> {
    let words = [
        "ome",
        "version",
        "0.4",
        "0.5",
        "0.6",
        "multiscales",
        "datasets",
        "axes",
        "path",
        "type",
        "scale",
        "translation",
        "sequence",
        "transformations",
        "byDimension",
        "affine",
        "rotation",
        "mapAxis",
        "projectAxis",
        "droppedInputs",
        "createdOutputs",
        "bijection",
        "forward",
        "inverse",
        "input",
        "output",
        "name",
        "coordinateSystems",
        "coordinateTransformations",
        "omero",
        "channels",
        "window",
        "labels",
        "image-label",
        "colors",
        "rgba",
        "plate",
        "wells",
        "rows",
        "columns",
        "rowIndex",
        "columnIndex",
        "acquisitions",
        "id",
        "well",
        "images",
        "series",
        "bioformats2raw.layout",
        "scene",
        "space",
        "y",
        "x",
        "../..",
        "A/1",
        "inputAxes",
        "outputAxes",
        "transformation",
    ];
    let word = move || prop::sample::select(words.to_vec()).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..6u64).prop_map(Value::from),
        word().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 128, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The place of each value of a document.
pub fn pointers(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                pointers(item, format!("{place}/{number}"), places);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                pointers(member, format!("{place}/{name}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}
