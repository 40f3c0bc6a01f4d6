//! Structures of the control device in JSON lines: their bytes as hexadecimal digits. Daemon and actuator are one
//! executable, so both know the same structures.

use std::fmt::Write as _;

use gpreempt_kernel_abi::Abi;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A structure as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbiText<T>(pub T);

impl<T: Abi> Serialize for AbiText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = vec![0; T::SIZE];
        // There is room.
        let _ = self.0.encode(&mut bytes);
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de, T: Abi> Deserialize<'de> for AbiText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AbiText<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let bytes: Option<Vec<u8>> = digits
            .filter(|digits| digits.len() == 2 * T::SIZE)
            .map(|digits| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect());
        let value = bytes.and_then(|bytes| T::decode(&bytes)).map(AbiText);
        value.ok_or_else(|| D::Error::custom("these are not the bytes of the structure"))
    }
}

#[cfg(test)]
mod tests {
    use gpreempt_kernel_abi::{ProcessArgs, ProcessFlags};

    use super::*;

    #[test]
    fn a_structure_comes_back_as_it_was_and_anything_else_is_refused() {
        let process = ProcessArgs { pid: 4711, job: u64::MAX, flags: ProcessFlags::STOPPABLE, ..ProcessArgs::SIZED };
        let text = serde_json::to_string(&AbiText(process)).unwrap();
        assert!(text.starts_with("\"2000000067120000"), "{text}");
        assert_eq!(serde_json::from_str::<AbiText<ProcessArgs>>(&text).unwrap(), AbiText(process));
        for wrong in ["\"28\"", "\"\"", &text.replace('6', "x"), "7"] {
            assert!(serde_json::from_str::<AbiText<ProcessArgs>>(wrong).is_err(), "{wrong}");
        }
    }
}
