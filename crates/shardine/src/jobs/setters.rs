//! Builder methods of options.

/// Methods that set one member each and return the options.
///
/// `name = T` takes what the member holds; `name some T` what an `Option<T>` holds; `name into T`
/// what can become that; `name slice T` the items of an `Option<Vec<T>>`.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident $kind:tt $of:ty;)+) => {
        $($crate::jobs::setters::setters!(@one [$(#[$doc])*] $name $kind $of);)+
    };
    (@one [$(#[$doc:meta])*] $name:ident = $of:ty) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: $of) -> Self {
            self.$name = $name;
            self
        }
    };
    (@one [$(#[$doc:meta])*] $name:ident some $of:ty) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: $of) -> Self {
            self.$name = Some($name);
            self
        }
    };
    (@one [$(#[$doc:meta])*] $name:ident into $of:ty) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: impl Into<$of>) -> Self {
            self.$name = Some($name.into());
            self
        }
    };
    (@one [$(#[$doc:meta])*] $name:ident slice $of:ty) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: &[$of]) -> Self {
            self.$name = Some($name.to_vec());
            self
        }
    };
}

pub(in crate::jobs) use setters;
