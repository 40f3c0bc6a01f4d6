//! The three shapes the interface is made of: structures, enumerations, flag sets. Exported for other interfaces of the
//! kernel that are described in the same way.

/// [`Abi`](crate::Abi) for a `repr(C)` structure, field by field, and with `for COMMAND` the command it is the argument
/// of. Does not compile if a field is missing in the list, if the compiler put padding between the fields, or if the
/// command's size is another.
#[macro_export]
macro_rules! plain {
    ($name:ident { $($field:ident),* $(,)? } $(for $command:ident)?) => {
        impl $crate::Abi for $name {
            const SIZE: usize = size_of::<$name>();
            const ZERO: $name = $name { $($field: $crate::Abi::ZERO),* };

            fn decode(bytes: &[u8]) -> Option<$name> {
                if bytes.len() < Self::SIZE {
                    return None;
                }
                Some($name { $($field: $crate::Abi::decode(bytes.get(core::mem::offset_of!($name, $field)..)?)?),* })
            }

            fn encode(&self, out: &mut [u8]) -> Option<()> {
                if out.len() < Self::SIZE {
                    return None;
                }
                $($crate::Abi::encode(&self.$field, out.get_mut(core::mem::offset_of!($name, $field)..)?)?;)*
                Some(())
            }
        }

        const _: () = {
            let sum = 0 $(+ $crate::field_size(|value: &$name| &value.$field))*;
            assert!(sum == size_of::<$name>(), concat!(stringify!($name), " has hidden padding"));
        };

        $(
            impl $crate::ioctl::Argument for $name {
                const COMMAND: $crate::ioctl::Command = $crate::ioctl::$command;
            }

            const _: () = assert!(
                $crate::ioctl::$command.size as usize == size_of::<$name>(),
                concat!(stringify!($name), " is not as large as its command says")
            );
        )?
    };
}

/// [`Abi`](crate::Abi) for a newtype over an integer.
#[macro_export]
macro_rules! transparent {
    ($name:ident) => {
        impl $crate::Abi for $name {
            const SIZE: usize = size_of::<$name>();
            const ZERO: $name = $name(0);

            fn decode(bytes: &[u8]) -> Option<$name> {
                $crate::Abi::decode(bytes).map($name)
            }

            fn encode(&self, out: &mut [u8]) -> Option<()> {
                self.0.encode(out)
            }
        }
    };
}

/// An enumeration of the driver as a newtype: values of a newer driver pass through.
#[macro_export]
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $value:ident = $number:expr,)* }) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$doc])* pub const $value: $name = $name($number);)*

            /// The values this version of the interface defines.
            pub const DEFINED: &'static [$name] = &[$($name::$value),*];

            /// Name of the value; `None` if this version of the interface does not define it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$value => Some(stringify!($value)),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }

        $crate::transparent!($name);
    };
}

/// A set of flags as a newtype: bits of a newer driver pass through. Prints as the names of its bits.
#[macro_export]
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $value:ident = $bits:expr,)* }) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$doc])* pub const $value: $name = $name($bits);)*

            /// No flag.
            pub const EMPTY: $name = $name(0);
            /// Every flag this version of the interface defines.
            pub const DEFINED: $name = $name(0 $(| $bits)*);
            /// Each of them with its name.
            pub const NAMES: &'static [($name, &'static str)] = &[$(($name::$value, stringify!($value))),*];

            /// Whether no flag is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether all flags of `other` are set.
            #[must_use]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// The flags of both.
            #[must_use]
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// These without those of `other`.
            #[must_use]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }

            /// Those that both have.
            #[must_use]
            pub const fn both(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                self.with(other)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut separator = "";
                for (_, name) in $name::NAMES.iter().filter(|(flag, _)| self.has(*flag)) {
                    write!(f, "{separator}{name}")?;
                    separator = " | ";
                }
                let rest = self.without($name::DEFINED);
                if !rest.is_empty() || separator.is_empty() {
                    write!(f, "{separator}{:#x}", rest.0)?;
                }
                Ok(())
            }
        }

        $crate::transparent!($name);
    };
}

/// Test: a structure's size and the offsets of its fields, written as numbers, are what the compiler made of it.
#[cfg(test)]
macro_rules! layout {
    ($name:ident, $size:expr, { $($field:ident: $offset:expr),* $(,)? }) => {
        assert_eq!(size_of::<$name>(), $size, concat!("size of ", stringify!($name)));
        $(assert_eq!(
            core::mem::offset_of!($name, $field),
            $offset,
            concat!("offset of ", stringify!($name), ".", stringify!($field))
        );)*
    };
}
