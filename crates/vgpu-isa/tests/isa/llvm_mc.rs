//! llvm-mc, the witness for names, numbers and encodings.

use std::io::Write as _;
use std::process::{Command, Stdio};

use vgpu_isa::inst::Target;

/// Runs llvm-mc-19 on some input; its output and what it complains about.
fn run(target: Target, option: &str, text: String) -> (String, String) {
    let mut child = Command::new("llvm-mc-19")
        .args(["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={}", target.name()), option])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("llvm-mc-19 is installed");
    let mut input = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("llvm-mc-19 ends");
    writer.join().expect("no panic").expect("llvm-mc-19 reads");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr))
}

/// Assembles lines, one instruction each; none for those that the target does not have.
pub(crate) fn assemble(lines: &[String], target: Target) -> Vec<Option<Vec<u32>>> {
    if lines.is_empty() {
        return Vec::new();
    }
    let (stdout, stderr) = run(target, "-show-encoding", lines.join("\n") + "\n");
    // <stdin>:LINE:COLUMN: error: ...
    let refused: Vec<usize> = stderr
        .lines()
        .filter(|line| line.contains(": error: "))
        .map(|line| line.split(':').nth(1).and_then(|n| n.parse().ok()).expect("a line number"))
        .collect();
    let mut encoded =
        stdout.lines().filter_map(|line| Some(line.split_once("encoding: [")?.1.trim_end_matches(']'))).map(|bytes| {
            let bytes: Vec<u8> =
                bytes.split(',').map(|b| u8::from_str_radix(b.trim_start_matches("0x"), 16).expect("hex")).collect();
            bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("dwords"))).collect()
        });
    let result = (1..=lines.len())
        .map(|line| (!refused.contains(&line)).then(|| encoded.next().expect("an encoding for each line")))
        .collect();
    assert!(encoded.next().is_none(), "one encoding for each line");
    result
}

/// Disassembles pieces of code, each on its own; the mnemonic of those that are one instruction.
pub(crate) fn disassemble(pieces: &[Vec<u32>], target: Target) -> Vec<Option<String>> {
    /// Stands between the pieces: s_nop with a number that no piece has.
    const MARK: u32 = 0xBF80_ABCD;
    let block = |words: &[u32]| {
        let bytes: Vec<String> = words.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:#04x}")).collect();
        format!("[{}]\n", bytes.join(" "))
    };
    let text = pieces.iter().map(|words| block(words) + &block(&[MARK])).collect();
    let (stdout, _) = run(target, "-disassemble", text);
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    for line in stdout.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('.')) {
        if line.starts_with("s_nop 0xabcd") {
            let name = |line: &str| line.split(' ').next().map(str::to_owned);
            found.push(if let [one] = lines[..] { name(one) } else { None });
            lines.clear();
        } else {
            lines.push(line);
        }
    }
    assert_eq!(found.len(), pieces.len(), "a mark after each piece");
    found
}
