//! Which region each element belongs to.

use super::super::Sides;

/// Provisional numbers that turned out to belong to one region; each leads to a lower one, or to
/// itself.
struct Merged(Vec<u32>);

impl Merged {
    fn root(&mut self, mut number: u32) -> u32 {
        while self.0[number as usize] != number {
            // Path halving: the next lookup takes half the steps.
            let parent = self.0[number as usize];
            self.0[number as usize] = self.0[parent as usize];
            number = parent;
        }
        number
    }

    fn merge(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = (a.min(b), a.max(b));
        self.0[high as usize] = low;
        low
    }
}

/// Numbers the regions between boundaries, from 1 in the order of their first elements; boundaries
/// are 0.
///
/// Regions are connected along x and y, and also along z if they are solid. `regions` holds one
/// zero per element.
pub(super) fn number(
    sides: Sides,
    boundaries: &[bool],
    is_solid: bool,
    mut regions: Vec<u32>,
) -> Result<Vec<u32>, String> {
    if u32::try_from(boundaries.len()).is_err() {
        return Err(format!(
            "{} elements are more than regions can be counted for",
            boundaries.len()
        ));
    }
    let (row, slice) = (sides.x, sides.x * sides.y);
    let mut merged = Merged(vec![0]);
    let mut at = 0;
    for z in 0..sides.z {
        for y in 0..sides.y {
            for x in 0..sides.x {
                let i = at;
                at += 1;
                if boundaries[i] {
                    continue;
                }
                let neighbours = [
                    if x > 0 { regions[i - 1] } else { 0 },
                    if y > 0 { regions[i - row] } else { 0 },
                    if is_solid && z > 0 { regions[i - slice] } else { 0 },
                ];
                let known = neighbours.into_iter().filter(|&region| region != 0);
                let known = known.reduce(|a, b| if a == b { a } else { merged.merge(a, b) });
                regions[i] = known.unwrap_or_else(|| {
                    let new = merged.0.len() as u32;
                    merged.0.push(new);
                    new
                });
            }
        }
    }
    // A region's lowest number was assigned at its first element, so the lowest ones are in order.
    let mut last = 0;
    let mut finals = vec![0; merged.0.len()];
    for number in 1..merged.0.len() {
        let root = merged.root(number as u32) as usize;
        if root == number {
            last += 1;
            finals[number] = last;
        } else {
            finals[number] = finals[root];
        }
    }
    regions.iter_mut().for_each(|region| *region = finals[*region as usize]);
    Ok(regions)
}
