use proptest::prelude::*;

use super::*;
use crate::shard::IndexLocation;

fn advise(situation: Situation) -> Recommendation {
    recommend(&situation).unwrap()
}

fn sampled(shape: &[u64], mean: u64, max: u64) -> Sample {
    Sample {
        shape: shape.to_vec(),
        count: 100,
        looked: 100,
        objects: 100,
        mean,
        median: mean,
        max,
        ratio: None,
    }
}

fn current(chunk: &[u64], shard: Option<&[u64]>) -> Option<Current> {
    let shard = shard.map(<[u64]>::to_vec);
    Some(Current { chunk: chunk.to_vec(), shard, index: IndexLocation::End, checksum: true })
}

#[test]
fn a_remote_volume_gets_shards_near_64_mib_of_what_chunks_really_take() {
    let mut situation = Situation::new(vec![4096; 3], 2).remote(true);
    situation.current = current(&[64; 3], None);
    for (mean, per_axis) in
        [(512 << 10, [4, 4, 8]), (128 << 10, [8, 8, 8]), (32 << 10, [8, 16, 16])]
    {
        situation.sample = Some(sampled(&[64; 3], mean, 2 * mean));
        let advice = advise(situation.clone());
        let expected = per_axis.map(|n: u64| n * 64).to_vec();
        assert_eq!(advice.shard, Some(expected), "{mean}");
        assert_eq!(
            (advice.chunk_choice.rule, advice.shard_choice.rule),
            (Rule::ChunkKept, Rule::TargetSize)
        );
        assert_eq!(advice.action, Action::Reshard);
        let (before, after) = (advice.before.unwrap(), advice.after);
        assert_eq!((before.objects, after.chunks), (64 * 64 * 64, 64 * 64 * 64));
        assert!((10_000_000..100_000_000).contains(&after.object_bytes), "{after:?}");
        assert_eq!(
            after.largest_object_bytes - after.index_bytes,
            2 * (after.object_bytes - after.index_bytes)
        );
    }
}

#[test]
fn a_local_disk_needs_no_shards_below_a_million_chunks() {
    let small = Situation::new(vec![2048; 3], 2);
    let advice = advise(small.clone());
    assert_eq!((advice.shard, advice.shard_choice.rule), (None, Rule::FewLocalChunks));
    let large = advise(Situation::new(vec![10_000; 3], 2));
    assert_eq!(large.shard_choice.rule, Rule::TargetSize);
    // For serving it gets 8 per axis, and for archiving few objects.
    let served = advise(small.clone().purpose(Purpose::Serve).ratio(3.0));
    assert_eq!((served.shard, served.shard_choice.rule), (Some(vec![512; 3]), Rule::EightPerAxis));
    let kept = advise(small.purpose(Purpose::Archive));
    assert!(kept.after.objects < 200 && kept.after.object_bytes > 60_000_000, "{kept:?}");
}

#[test]
fn eight_per_axis_gives_way_to_what_was_measured() {
    let mut situation = Situation::new(vec![4096; 3], 2).remote(true).purpose(Purpose::Serve);
    situation.current = current(&[64; 3], None);
    situation.sample = Some(sampled(&[64; 3], 300_000, 400_000));
    let advice = advise(situation.clone());
    assert_eq!(advice.shard_choice.rule, Rule::TargetSize);
    assert_eq!(advice.shard, Some(vec![256, 512, 512]));
    // Labels compress to next to nothing: a shard of the target size would not fit into memory.
    situation.sample = Some(sampled(&[64; 3], 2000, 4000));
    let advice = advise(situation);
    assert_eq!(advice.shard_choice.rule, Rule::MemoryLimit);
    assert_eq!(advice.shard, Some(vec![512, 1024, 1024]));
}

#[test]
fn many_writers_get_no_shards() {
    let mut situation = Situation::new(vec![10_000; 3], 2).remote(true).purpose(Purpose::Write);
    assert!(advise(situation.clone()).shard.is_some());
    situation.writers = 16;
    let advice = advise(situation.clone());
    assert_eq!((advice.shard, advice.shard_choice.rule), (None, Rule::ParallelWriters));
    // For serving, a note explains how to live with shards.
    let advice = advise(situation.purpose(Purpose::Serve));
    assert!(
        advice.shard.is_some() && advice.notes.iter().any(|note| note.contains("whole shards"))
    );
}

#[test]
fn what_will_be_updated_gets_small_shards_with_the_index_at_the_start() {
    let advice = advise(Situation::new(vec![10_000; 3], 2).remote(true).purpose(Purpose::Update));
    let (place, choice) = advice.index.unwrap();
    assert_eq!((place, choice.rule), (IndexLocation::Start, Rule::IndexStart));
    assert!((10_000_000..25_000_000).contains(&advice.after.object_bytes));
    // The index alone is a reason for a change.
    let mut situation = Situation::new(vec![1024; 3], 2).purpose(Purpose::Update);
    situation.current = current(&[64; 3], Some(&[256; 3]));
    assert_eq!(advise(situation.clone()).action, Action::Reshard);
    situation.purpose = Purpose::General;
    assert_eq!(advise(situation).action, Action::Nothing);
}

#[test]
fn chunks_that_are_far_too_small_or_large_are_cut_anew() {
    let mut situation = Situation::new(vec![1, 1, 2000, 4000, 4000], 2).remote(true);
    situation.current = current(&[1, 1, 1, 1, 5], None);
    let advice = advise(situation.clone());
    assert_eq!((advice.chunk_choice.rule, advice.action), (Rule::ChunkTooSmall, Action::Rechunk));
    assert_eq!(advice.chunk, [1, 1, 64, 64, 64]);
    assert!(advice.before.unwrap().objects > 1_000_000_000);
    situation.current = current(&[1, 1, 512, 512, 512], None);
    let advice = advise(situation.clone());
    assert_eq!((advice.chunk_choice.rule, advice.action), (Rule::ChunkTooLarge, Action::Rechunk));
    // What the caller chose stays.
    situation.chunk = Some(vec![1, 1, 512, 512, 512]);
    let advice = advise(situation);
    assert_eq!((advice.chunk_choice.rule, advice.shard), (Rule::ChunkGiven, None));
    assert_eq!(advice.shard_choice.rule, Rule::LargeChunks);
}

#[test]
fn odd_chunks_and_prime_extents_need_no_other_chunks() {
    let mut situation = Situation::new(vec![997, 1009, 10_007], 2).remote(true);
    situation.current = current(&[98, 98, 98], None);
    let advice = advise(situation);
    assert_eq!((advice.chunk_choice.rule, &advice.chunk[..]), (Rule::ChunkKept, &[98; 3][..]));
    let shard = advice.shard.unwrap();
    assert!(shard.iter().all(|length| length % 98 == 0), "{shard:?}");
    let advice = advise(Situation::new(vec![65, 65, 65], 2).remote(true));
    assert!(advice.notes.iter().any(|note| note.contains("past the edge")), "{:?}", advice.notes);
}

#[test]
fn each_level_of_a_pyramid_has_shards_of_its_own() {
    let level = |n: u64| {
        let mut situation = Situation::new(vec![3, n, n, n], 2).remote(true);
        situation.current = current(&[1, 64, 64, 64], None);
        situation.sample = Some(sampled(&[1, 64, 64, 64], 200_000, 300_000));
        advise(situation)
    };
    // One channel is viewed at a time, so a shard holds one, as long as it is large enough.
    assert_eq!(level(2048).shard, Some(vec![1, 256, 512, 512]));
    let (small, smallest) = (level(256), level(64));
    assert_eq!(
        (small.shard, small.shard_choice.rule),
        (Some(vec![3, 256, 256, 256]), Rule::WholeArray)
    );
    assert_eq!(smallest.shard, Some(vec![3, 64, 64, 64]));
    assert_eq!(advise(Situation::new(vec![64; 3], 2)).shard_choice.rule, Rule::OneChunk);
}

#[test]
fn shards_that_are_there_stay_if_their_size_is_right() {
    let mut situation = Situation::new(vec![2048; 3], 2);
    situation.current = current(&[64; 3], Some(&[512; 3]));
    situation.sample = Some(sampled(&[64; 3], 100_000, 200_000));
    let advice = advise(situation.clone());
    assert_eq!((advice.shard_choice.rule, advice.action), (Rule::ShardKept, Action::Nothing));
    // The whole array in one shard, as some tools do it, is too much.
    situation.current = current(&[64; 3], Some(&[2048; 3]));
    let advice = advise(situation.clone());
    assert_eq!((advice.shard_choice.rule, advice.action), (Rule::TargetSize, Action::Reshard));
    // Unless it is small.
    situation.sample = Some(sampled(&[64; 3], 1000, 2000));
    let advice = advise(situation);
    assert_eq!((advice.shard_choice.rule, advice.action), (Rule::ShardKept, Action::Nothing));
}

#[test]
fn a_screen_is_counted_where_it_lies_unluckily() {
    let mut situation = Situation::new(vec![512, 4096, 4096], 2).remote(true);
    situation.chunk = Some(vec![64; 3]);
    let advice = advise(situation);
    let screen = &advice.after.screen;
    assert_eq!(screen.shape, [1, 1080, 1920]);
    // 1080 rows that begin with the last of a chunk: 1 + 1079 / 64, rounded up.
    assert_eq!(screen.chunks, 18 * 31);
    assert_eq!(screen.most_requests, screen.chunks + screen.objects);
    assert_eq!(screen.least_requests, 2 * screen.objects);
    let volume = advice.after.volume.unwrap();
    assert_eq!((volume.shape, volume.chunks), (vec![512; 3], 8 * 9 * 9));
}

#[test]
fn a_shape_of_another_rank_is_refused() {
    let mut situation = Situation::new(vec![10, 10], 2);
    situation.chunk = Some(vec![10]);
    let error = recommend(&situation).unwrap_err();
    assert_eq!(error, PlanError::Rank { what: "chunk", given: vec![10], rank: 2 });
    situation.chunk = Some(vec![0, 1]);
    assert!(recommend(&situation).is_err());
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..5, Just(997), 1u64..5000, any::<u64>()]
}

proptest! {
    #[test]
    fn every_situation_has_an_answer(
        axes in proptest::collection::vec((length(), length(), 1u64..9), 0..65),
        element in prop_oneof![1u64..20, any::<u64>()],
        chunked in 0u8..3,
        mean in prop_oneof![Just(None), (0u64..(1 << 26)).prop_map(Some), any::<u64>().prop_map(Some)],
        ratio in prop_oneof![Just(None), any::<f64>().prop_map(Some)],
        purpose in 0usize..5,
        remote: bool,
        writers in 0u64..100,
        target in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        let purposes =
            [Purpose::General, Purpose::Serve, Purpose::Update, Purpose::Write, Purpose::Archive];
        let shape: Vec<u64> = axes.iter().map(|a| a.0).collect();
        let chunk: Vec<u64> = axes.iter().map(|a| a.1.max(1)).collect();
        let mut situation = Situation::new(shape.clone(), element).remote(remote);
        situation.purpose = purposes[purpose];
        (situation.ratio, situation.writers, situation.target) = (ratio, writers, target);
        situation.sample = mean.map(|mean| sampled(&chunk, mean, mean.saturating_mul(2)));
        match chunked {
            0 => {}
            1 => situation.chunk = Some(chunk.clone()),
            _ => {
                let shard = axes.iter().zip(&chunk).map(|(a, &c)| a.2.saturating_mul(c)).collect();
                situation.current =
                    Some(Current { chunk: chunk.clone(), shard: Some(shard), index: IndexLocation::End, checksum: true });
            }
        }
        let advice = recommend(&situation).unwrap();
        prop_assert_eq!(&advice, &recommend(&situation).unwrap());
        prop_assert!(advice.chunk.len() == shape.len() && !advice.chunk.contains(&0));
        for choice in [&advice.chunk_choice, &advice.shard_choice] {
            prop_assert!(!choice.reason.is_empty() && !choice.reason.contains('\n'));
        }
        let kept = advice.shard_choice.rule == Rule::ShardKept;
        if let (Some(shard), false) = (&advice.shard, kept) {
            prop_assert!(shard.iter().zip(&advice.chunk).all(|(s, c)| s % c == 0 && s >= c));
            let chunks: u128 = shard.iter().zip(&advice.chunk).map(|(s, c)| u128::from(s / c)).product();
            prop_assert!(chunks > 1 && chunks <= 1 << 15);
            // Near the target, or all of the array.
            let bytes = chunks as f64 * situation.encoded(&advice.chunk) as f64;
            let most = situation.target.unwrap_or(100_000_000) as f64;
            prop_assert!(bytes <= 1.42 * most, "{} {}", bytes, most);
            let small = bytes < 0.6 * situation.target.unwrap_or(16 << 20) as f64;
            if small && situation.target.is_none() {
                let grid = situation.grid(&advice.chunk);
                let full = shard.iter().zip(&advice.chunk).zip(&grid).all(|((s, c), g)| 2 * (s / c) > *g || *g == 0);
                let raw = chunks as f64 * situation.raw(&advice.chunk) as f64;
                prop_assert!(full || chunks * 2 > 1 << 15 || raw > 0.5 * (1u64 << 30) as f64 || advice.shard_choice.rule == Rule::EightPerAxis);
            }
        }
        if advice.shard.is_none() {
            prop_assert!(matches!(
                advice.shard_choice.rule,
                Rule::OneChunk | Rule::ParallelWriters | Rule::FewLocalChunks | Rule::LargeChunks
            ));
        }
    }
}
