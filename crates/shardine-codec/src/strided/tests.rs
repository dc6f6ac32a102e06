use proptest::prelude::*;

use super::*;

/// Offsets of a box, element by element, the slow and obvious way.
fn offsets(shape: &[usize], place: &Placement) -> Vec<usize> {
    let total: usize = shape.iter().product();
    (0..total)
        .map(|mut i| {
            let mut at = place.start;
            for k in (0..shape.len()).rev() {
                at += (i % shape[k]) * place.strides[k];
                i /= shape[k];
            }
            at
        })
        .collect()
}

/// A box in memory whose axes lie in the given order, with a step along each.
fn placed(
    shape: &[usize],
    order: &[usize],
    steps: &[usize],
    start: usize,
    size: usize,
) -> Placement {
    let mut strides: Axes<usize> = SmallVec::from_elem(0, shape.len());
    let mut stride = size;
    for &k in order.iter().rev() {
        strides[k] = stride * steps[k];
        stride *= steps[k] * shape[k].max(1);
    }
    Placement { start, strides }
}

prop_compose! {
    fn boxes()(rank in 0usize..6)(
        shape in prop::collection::vec(0usize..40, rank).prop_map(|mut s| {
            while s.iter().product::<usize>() > 20_000 {
                for n in &mut s { *n = n.div_ceil(2); }
            }
            s
        }),
        from_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        to_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        from_steps in prop::collection::vec(1usize..3, rank),
        to_steps in prop::collection::vec(1usize..3, rank),
        size in prop::sample::select(vec![1usize, 2, 3, 4, 8, 16]),
        start in 0usize..9,
    ) -> (Vec<usize>, Placement, Placement, usize) {
        let from = placed(&shape, &from_order, &from_steps, start, size);
        let to = placed(&shape, &to_order, &to_steps, start / 2, size);
        (shape, from, to, size)
    }
}

prop_compose! {
    /// Boxes of whole lines or nearly so: the target's rows start `shift` bytes into a line of
    /// memory, a whole number of lines apart, so that streaming stores have something to stream.
    fn lined_boxes()(rank in 1usize..5)(
        fast in prop::sample::select(vec![16usize, 32, 64, 70, 128, 300, 1200]),
        slow in prop::collection::vec(1usize..40, rank - 1).prop_map(|mut s| {
            while s.iter().product::<usize>() > 200 {
                for n in &mut s { *n = n.div_ceil(2); }
            }
            s
        }),
        from_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        to_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        pad in 0usize..3,
        size in prop::sample::select(vec![1usize, 2, 4, 8, 16]),
        shift in prop::sample::select(vec![0usize, 0, 0, 1, 2, 16, 40]),
    ) -> (Vec<usize>, Placement, Placement, usize, usize) {
        let mut shape = slow;
        let rank = to_order.len();
        shape.insert(to_order[rank - 1].min(shape.len()), fast);
        let from = placed(&shape, &from_order, &vec![1; rank], 3, size);
        let mut to = placed(&shape, &to_order, &vec![1; rank], 0, size);
        let mut stride = size;
        for &k in to_order.iter().rev() {
            to.strides[k] = stride;
            stride = (stride * shape[k]).next_multiple_of(64) + 64 * pad;
        }
        (shape, from, to, size, shift)
    }
}

/// Copies with both kinds of stores and compares with the slow way; the target starts `shift` bytes
/// into a line.
fn check_copy(shape: &[usize], from: &Placement, to: &Placement, size: usize, shift: usize) {
    let source: Vec<u8> =
        (0..from.end(shape, size).unwrap()).map(|i| (i * 7 + i / 251 + 1) as u8).collect();
    let len = to.end(shape, size).unwrap() + 5;
    let mut memory = vec![0xEE; len + 128];
    let begin = (memory.as_ptr().addr().wrapping_neg() % 64) + shift;
    let mut expected = memory[begin..][..len].to_vec();
    for (f, t) in offsets(shape, from).into_iter().zip(offsets(shape, to)) {
        expected[t..t + size].copy_from_slice(&source[f..f + size]);
    }
    for stores in [Stores::Cached, Stores::Streaming] {
        memory.fill(0xEE);
        let target = Window::new(&mut memory[begin..][..len]);
        // SAFETY: the window is an exclusive borrow used by this one call.
        unsafe { copy_into_with(shape, size, &source, from, &target, to, stores) }.unwrap();
        assert!(memory[begin..][..len] == expected, "{stores:?}");
        assert!(memory[..begin].iter().chain(&memory[begin + len..]).all(|&b| b == 0xEE));
    }
}

proptest! {
    #[test]
    fn a_copy_moves_each_element_and_touches_nothing_else((shape, from, to, size) in boxes()) {
        check_copy(&shape, &from, &to, size, 0);
    }

    #[test]
    fn lines_are_stored_whole_and_nothing_besides(
        (shape, from, to, size, shift) in lined_boxes()
    ) {
        check_copy(&shape, &from, &to, size, shift);
    }

    #[test]
    fn a_fill_writes_each_place_and_touches_nothing_else((shape, _, to, size) in boxes()) {
        let element: Vec<u8> = (0..size as u8).map(|i| i + 1).collect();
        let mut target = vec![0xEE; to.end(&shape, size).unwrap() + 5];
        let mut expected = target.clone();
        for t in offsets(&shape, &to) {
            expected[t..t + size].copy_from_slice(&element);
        }
        fill(&shape, &element, &mut target, &to).unwrap();
        prop_assert_eq!(target, expected);
    }

    #[test]
    fn filled_means_every_element(mut bytes in prop::collection::vec(0u8..2, 0..64), n in 1usize..5) {
        bytes.truncate(bytes.len() / n * n);
        let element = vec![0; n];
        let expected = bytes.iter().all(|&b| b == 0);
        prop_assert_eq!(is_filled(&bytes, &element), expected);
    }
}

#[test]
fn a_box_past_the_end_is_refused_before_anything_is_written() {
    let place = Placement { start: 0, strides: SmallVec::from_slice(&[4]) };
    let mut target = [0; 8];
    assert_eq!(copy(&[3], 4, &[1; 12], &place, &mut target, &place), Err(OutOfMemory));
    assert_eq!(copy(&[2], 4, &[1; 7], &place, &mut target, &place), Err(OutOfMemory));
    let far = Placement { start: usize::MAX - 2, strides: SmallVec::from_slice(&[usize::MAX]) };
    assert_eq!(copy(&[2], 4, &[1; 8], &place, &mut target, &far), Err(OutOfMemory));
    assert_eq!(target, [0; 8]);
}

/// Every pair of extents around the boundaries of kernels, lines and stages.
#[test]
fn planes_of_every_extent_are_transposed() {
    let extents = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129];
    for size in [1, 2, 4, 8, 16] {
        for rows in extents {
            for columns in extents {
                let shape = [rows, columns];
                let from = placed(&shape, &[0, 1], &[1, 1], 1, size);
                let to = placed(&shape, &[1, 0], &[1, 1], 0, size);
                check_copy(&shape, &from, &to, size, rows % 3);
            }
        }
    }
}

/// More planes than the stage holds, with either axis the closer one in the target.
#[test]
fn chunks_are_transposed_past_the_end_of_the_stage() {
    for size in [1, 2, 4, 8] {
        for shape in [[32, 32, 32], [40, 70, 33], [70, 8, 70], [33, 300, 17]] {
            for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2]] {
                let from = placed(&shape, &[0, 1, 2], &[1, 1, 1], 0, size);
                let to = placed(&shape, &order, &[1, 1, 1], 0, size);
                check_copy(&shape, &from, &to, size, 0);
                check_copy(&shape, &to, &from, size, 16);
            }
        }
    }
}

#[test]
fn one_extent_in_the_way_of_all_others_copies_nothing() {
    let place = Placement { start: 0, strides: SmallVec::from_slice(&[1 << 40, 1, 1 << 50]) };
    let mut target = [0; 4];
    let window = Window::new(&mut target);
    for stores in [Stores::Cached, Stores::Streaming] {
        let shape = [usize::MAX, 0, usize::MAX];
        // SAFETY: the window is used by this one call at a time.
        let done = unsafe { copy_into_with(&shape, 1, &[1; 4], &place, &window, &place, stores) };
        assert_eq!(done, Ok(()));
        // SAFETY: as above.
        let refused = unsafe {
            copy_into_with(&[usize::MAX, 1, 1], 1, &[1; 4], &place, &window, &place, stores)
        };
        assert_eq!(refused, Err(OutOfMemory));
    }
    assert_eq!(target, [0; 4]);
}

#[test]
fn a_long_period_is_not_mistaken_for_a_fill() {
    let mut bytes = vec![5; 100_000];
    assert!(is_filled(&bytes, &[5, 5]));
    bytes[99_999] = 6;
    assert!(!is_filled(&bytes, &[5, 5]));
}

#[test]
fn units_are_turned_round_inside_their_element() {
    let mut bytes = [1, 2, 3, 4, 5, 6];
    let units = [crate::SwapUnit { offset: 1, len: 2 }];
    swap_units(&mut bytes, 3, &units);
    assert_eq!(bytes, [1, 3, 2, 4, 6, 5]);
}
