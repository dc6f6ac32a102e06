use proptest::prelude::*;

use super::*;
use crate::ome::LevelPlacement;

fn space(name: &str, scale: f64, translation: f64) -> PhysicalAxis {
    PhysicalAxis::new(name, AxisRole::Space, Some("micrometer"), scale, translation)
}

/// The axes t, c, z and x, and 10, 3, 512 and 100 elements along them.
fn axes() -> (Vec<PhysicalAxis>, [u64; 4]) {
    let axes = vec![
        PhysicalAxis::new("t", AxisRole::Time, Some("second"), 0.5, 0.0),
        PhysicalAxis::new("c", AxisRole::Channel, None, 1.0, 0.0),
        space("z", 0.1, 0.0),
        PhysicalAxis::new("x", AxisRole::Space, None, 2.0, 7.0),
    ];
    (axes, [10, 3, 512, 100])
}

fn region(text: &str) -> Result<String, BoxError> {
    let (axes, shape) = axes();
    text.parse::<PhysicalBox>()?.region(&axes, &shape).map(|region| region.to_string())
}

#[test]
fn a_box_holds_the_elements_with_their_centre_in_it() {
    for (text, expected) in [
        ("z=0:20um", "0:10,0:3,0:200,0:100"),
        ("z=:20", "0:10,0:3,0:200,0:100"),
        ("z=0.05:0.15", "0:10,0:3,1:2,0:100"),
        ("z=50:", "0:10,0:3,500:512,0:100"),
        ("z=:", "0:10,0:3,0:512,0:100"),
        ("z=-5:1um", "0:10,0:3,0:10,0:100"),
        ("z=0:1mm", "0:10,0:3,0:512,0:100"),
        ("z=100:300nm", "0:10,0:3,1:3,0:100"),
        ("z=100nm:300", "0:10,0:3,1:3,0:100"),
        ("z=1e3nm:1.2e-3 mm", "0:10,0:3,10:12,0:100"),
        ("z=1\u{b5}m:1.2\u{3bc}m", "0:10,0:3,10:12,0:100"),
        ("z = 1micron : 2 micrometer", "0:10,0:3,10:20,0:100"),
        ("x=7:9", "0:10,0:3,0:512,0:1"),
        ("x=7:9.001", "0:10,0:3,0:512,0:2"),
        ("t=2:4", "2:4,0:3,0:512,0:100"),
        ("t=1:2s", "2:4,0:3,0:512,0:100"),
        ("t=1000ms:", "2:10,0:3,0:512,0:100"),
        ("c=1:", "0:10,1:3,0:512,0:100"),
        ("c=1:99,t=:1", "0:1,1:3,0:512,0:100"),
    ] {
        assert_eq!(region(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn a_position_is_the_element_around_it() {
    for (text, expected) in [
        ("z=0", "0:10,0:3,0:1,0:100"),
        ("z=0.049", "0:10,0:3,0:1,0:100"),
        ("z=0.05", "0:10,0:3,1:2,0:100"),
        ("z=-0.05um", "0:10,0:3,0:1,0:100"),
        ("z=51.149um,c=2,t=9", "9:10,2:3,511:512,0:100"),
        ("x=204,t=1.4s", "3:4,0:3,0:512,99:100"),
    ] {
        assert_eq!(region(text).as_deref(), Ok(expected), "{text}");
    }
    for text in ["z=-0.06", "z=51.15", "x=206.1", "x=5.9", "c=3", "t=10", "t=4.8s"] {
        assert!(matches!(region(text), Err(BoxError::Empty { .. })), "{text}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let wrong = |text: &str| region(text).unwrap_err();
    for text in ["", "5", "z", "=5", "z=", "z=a", "z=1:2:3", "z=inf", "z=nan:", "z=5um2", "z=0:20,"]
    {
        assert!(matches!(wrong(text), BoxError::Syntax { .. }), "{text}: {:?}", wrong(text));
    }
    assert!(matches!(wrong("z=1,z=2"), BoxError::NamedTwice { .. }));
    assert!(matches!(wrong("y=1"), BoxError::UnknownAxis { .. }));
    for unit in ["Mm", "UM", "furlong", "px"] {
        let unknown = BoxError::UnknownUnit { unit: unit.to_owned() };
        assert_eq!(wrong(&format!("z=1{unit}")), unknown);
    }
    assert!(matches!(wrong("x=0:5um"), BoxError::NoUnit { .. }));
    assert!(matches!(wrong("c=0:1um"), BoxError::NoUnit { .. }));
    assert!(matches!(wrong("z=0:5s"), BoxError::OtherUnit { .. }));
    assert!(matches!(wrong("t=0:5um"), BoxError::OtherUnit { .. }));
    for text in ["c=0.5", "t=-1", "c=1:2.5", "t=1e300"] {
        assert!(matches!(wrong(text), BoxError::NotAnIndex { .. }), "{text}");
    }
    for text in ["z=20:10", "z=20:20", "z=51.2:60", "z=-9:-1", "c=3:", "c=2:1", "t=9s:"] {
        assert!(matches!(wrong(text), BoxError::Empty { .. }), "{text}");
    }
    assert_eq!(
        wrong("z=60:70um").to_string(),
        "no element of axis \"z\" is in the box: their centres are from 0 to 51.1 micrometer"
    );
    let flat = [space("z", 0.0, 0.0)];
    let all: PhysicalBox = "z=0:1".parse().unwrap();
    assert!(matches!(all.region(&flat, &[5]), Err(BoxError::NoScale { .. })));
    assert!(matches!(all.region(&flat, &[5, 5]), Err(BoxError::Rank { axes: 1, rank: 2 })));
    assert!(matches!(all.region(&[space("z", 1.0, 0.0)], &[0]), Err(BoxError::Empty { .. })));
}

#[test]
fn coordinates_that_fall_select_the_same_elements() {
    let axis = space("z", -0.5, 10.0);
    // Centres: 10, 9.5, 9, 8.5, 8.
    assert_eq!(axis.elements(Some(8.5), Some(9.5), 5), 2..4);
    assert_eq!(axis.elements(Some(8.4), None, 5), 0..4);
    assert_eq!(axis.elements(None, Some(8.5), 5), 4..5);
    assert!(axis.elements(Some(10.1), Some(12.0), 5).is_empty());
    assert_eq!((axis.element_at(10.0, 5), axis.element_at(7.8, 5)), (Some(0), Some(4)));
    assert_eq!((axis.element_at(10.3, 5), axis.element_at(7.7, 5)), (None, None));
}

#[test]
fn numbers_beyond_all_measure_are_outside() {
    let axis = space("z", 1e-300, 0.0);
    assert_eq!(axis.elements(Some(1e300), None, 5), u64::MAX..u64::MAX);
    assert_eq!(axis.elements(Some(-1e300), Some(1e300), 5), 0..5);
    assert_eq!(axis.element_at(1e300, 5), None);
}

/// Thousandths, written as people write them.
fn decimal(thousandths: i64) -> f64 {
    let sign = if thousandths < 0 { "-" } else { "" };
    let (whole, rest) = (thousandths.abs() / 1000, thousandths.abs() % 1000);
    format!("{sign}{whole}.{rest:03}").parse().unwrap()
}

proptest! {
    #[test]
    fn boxes_of_decimal_numbers_are_exact(
        scale in 1i64..100_000,
        falls in any::<bool>(),
        translation in -1_000_000i64..1_000_000,
        len in 1u64..1_000,
        first in -100i64..1_100,
        count in 0i64..1_000,
        off in prop_oneof![Just(0i64), -40_000i64..40_000],
        nanometers in any::<bool>(),
    ) {
        let step = if falls { -scale } else { scale };
        let axis = space("z", decimal(step), decimal(translation));
        // On a voxel, or beside one.
        let start = first * scale + translation + off;
        let stop = start + count * scale;
        let text = match nanometers {
            true => format!("z={start}:{stop}nm"),
            false => format!("z={}:{}", decimal(start), decimal(stop)),
        };
        // In whole numbers nothing is rounded.
        let inside = |i: &u64| {
            let centre = i128::from(*i) * i128::from(step) + i128::from(translation);
            (i128::from(start)..i128::from(stop)).contains(&centre)
        };
        let expected: Vec<u64> = (0..len).filter(inside).collect();
        let found = text.parse::<PhysicalBox>().unwrap().region(std::slice::from_ref(&axis), &[len]);
        match found {
            Ok(region) => {
                let found = region.resolve(&[len]).unwrap().axes[0];
                let found: Vec<u64> = (found.start..found.start + found.count).collect();
                prop_assert_eq!(found, expected);
            }
            Err(error) => {
                prop_assert!(matches!(error, BoxError::Empty { .. }), "{}", error);
                prop_assert!(expected.is_empty());
            }
        }
        // A centre is in its own element.
        let inside = (first.max(0) as u64).min(len - 1);
        prop_assert_eq!(axis.element_at(axis.centre(inside), len), Some(inside));
    }

    #[test]
    fn a_box_of_a_coarser_level_is_the_one_of_the_finest_where_voxels_coincide(
        scale in 1u32..5_000,
        factor in 1u64..5,
        coarse in 0u64..50,
        count in 1u64..50,
    ) {
        let finest = LevelPlacement::new(vec![f64::from(scale) / 1000.0], vec![0.0]);
        let level = finest.downsampled(&[factor]);
        let axis = |level: &LevelPlacement| space("z", level.scale[0], level.translation[0]);
        let (finest, level) = (axis(&finest), axis(&level));
        // From corner to corner of coarse voxels.
        let corner = |index: u64| level.centre(index) - level.scale / 2.0;
        let (start, stop) = (corner(coarse), corner(coarse + count));
        prop_assert_eq!(level.elements(Some(start), Some(stop), 1_000), coarse..coarse + count);
        let fine = coarse * factor..(coarse + count) * factor;
        prop_assert_eq!(finest.elements(Some(start), Some(stop), 1_000), fine);
    }

    #[test]
    fn no_text_panics(text in "[a-z=:,.0-9 +eEumnµ-]{0,24}") {
        let (axes, shape) = axes();
        if let Ok(parsed) = text.parse::<PhysicalBox>()
            && let Ok(region) = parsed.region(&axes, &shape)
        {
            prop_assert!(region.resolve(&shape).is_ok());
        }
    }
}
