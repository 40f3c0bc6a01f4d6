use super::*;

const GPU: GpuId = GpuId(0xF7BC);

/// A dump in the driver's form: nothing but what the discovery thread looks at.
pub(in crate::discovery) fn dump(text: &mut String, words: &[(usize, u32)]) {
    let mut bytes = [0_u32; 512];
    words.iter().for_each(|(offset, value)| bytes[offset / 4] = *value);
    for (at, row) in bytes.chunks(8).enumerate() {
        text.push_str(&format!("    {:08x}:", at * 32));
        row.iter().for_each(|word| text.push_str(&format!(" {word:08x}")));
        text.push('\n');
    }
}

/// One compute queue, AQL or PM4, with its ring at a million times its number.
pub(in crate::discovery) fn queue(text: &mut String, gpu: GpuId, number: u32, aql: bool) {
    text.push_str(&format!("  Compute queue on device {:x}\n", gpu.0));
    let page = number << 20;
    dump(
        text,
        &[
            (0x220, page >> 8),
            (0x22C, page + 0x80),
            (0x230, 0x7F00),
            (0x234, page + 0x38),
            (0x238, 0x7F00),
            (0x244, 0x1401_C50F),
            (0x2D4, aql.into()),
        ],
    );
}

fn ring_at(number: u64, format: RingFormat) -> RingPlace {
    let page = number << 20;
    let high = 0x7F00 << 32;
    RingPlace {
        format,
        base: page,
        bytes: 1 << 18,
        read_index: high | (page + 0x80),
        write_index: high | (page + 0x38),
    }
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn reader(&self) -> Reader {
        Reader::new(self.0.path().to_owned())
    }

    fn show(&self, queues: &[(u32, u32, bool)]) {
        let mut text = String::new();
        for (pid, number, aql) in queues {
            text.push_str(&format!("Process {pid} PASID 0x8001:\n"));
            queue(&mut text, GPU, *number, *aql);
        }
        std::fs::write(self.0.path().join("mqds"), text).unwrap();
    }

    fn hide(&self) {
        let _ = std::fs::remove_file(self.0.path().join("mqds"));
    }
}

fn find(reader: &mut Reader, rings: &mut Rings, count: usize, changed: bool, now: Instant) {
    reader.find(vec![Wanted { pid: Pid(7), gpu: GPU, count, rings }], changed, now);
}

#[test]
fn rings_of_both_formats_are_found() {
    let files = Files::new();
    for (aql, format) in [(true, RingFormat::Aql), (false, RingFormat::Pm4)] {
        files.show(&[(6, 1, true), (7, 2, aql)]);
        let mut rings = Rings::Unknown;
        find(&mut files.reader(), &mut rings, 1, true, Instant::now());
        assert_eq!(rings, Rings::Known(vec![ring_at(2, format)]));
    }
}

#[test]
fn descriptors_that_do_not_match_are_read_again_ever_later() {
    let files = Files::new();
    files.show(&[(7, 2, true)]);
    let (mut reader, mut rings) = (files.reader(), Rings::Unknown);
    let mut now = Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..6 {
        find(&mut reader, &mut rings, 2, false, now);
        assert!(matches!(rings, Rings::Blind(_)), "{rings:?}");
        pauses.push(reader.pause.as_millis());
        now = reader.due.unwrap();
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100]);
    // Not before it is due.
    files.show(&[(7, 2, true), (7, 3, true)]);
    let early = now.checked_sub(Duration::from_millis(1)).unwrap();
    find(&mut reader, &mut rings, 1, false, early);
    assert!(!rings.are_known());
}

#[test]
fn a_new_queue_is_looked_for_soon_though_another_is_never_found() {
    let files = Files::new();
    files.show(&[(7, 2, true)]);
    let (mut reader, mut rings) = (files.reader(), Rings::Unknown);
    let mut now = Instant::now();
    for _ in 0..8 {
        find(&mut reader, &mut rings, 2, false, now);
        now = reader.due.unwrap();
    }
    find(&mut reader, &mut rings, 2, false, now);
    let due = reader.due.unwrap();
    find(&mut reader, &mut rings, 2, true, now);
    assert!(reader.due.unwrap() < due);
}

#[test]
fn what_cannot_be_read_is_said_with_the_remedy_and_tried_again_after_a_second() {
    let files = Files::new();
    let (mut reader, mut rings) = (files.reader(), Rings::Unknown);
    let now = Instant::now();
    find(&mut reader, &mut rings, 1, true, now);
    let Rings::Blind(Blind { why, refused: true }) = &rings else { panic!("{rings:?}") };
    assert!(why.contains("mqds") && why.contains("mount debugfs"), "{why}");
    assert_eq!(reader.refused(), Some(why.as_str()));
    // Another process appears meanwhile: it learns why without another attempt.
    files.show(&[(7, 2, true)]);
    let mut other = Rings::Unknown;
    find(&mut reader, &mut other, 1, true, now + Duration::from_millis(900));
    assert_eq!(other, rings);
    let due = reader.due.unwrap();
    find(&mut reader, &mut other, 1, false, due);
    assert!(other.are_known() && reader.refused().is_none());
    files.hide();
}

#[test]
fn an_address_that_is_missing_makes_no_ring() {
    let files = Files::new();
    files.show(&[(7, 0, true)]);
    let mut rings = Rings::Unknown;
    find(&mut files.reader(), &mut rings, 1, true, Instant::now());
    assert!(!rings.are_known());
}
