//! Columns value by value: built from text or bytes, and written as either.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, PrimitiveArray, StringArray,
    make_array,
};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields};

/// The one form of strings in batches.
pub(super) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

macro_rules! for_numbers {
    ($apply:ident) => {
        $apply! {
            Int8 i8 Int8Type, Int16 i16 Int16Type, Int32 i32 Int32Type, Int64 i64 Int64Type,
            UInt8 u8 UInt8Type, UInt16 u16 UInt16Type, UInt32 u32 UInt32Type, UInt64 u64 UInt64Type,
            Float32 f32 Float32Type, Float64 f64 Float64Type
        }
    };
}

macro_rules! define {
    ($($name:ident $native:ident $arrow:ident),*) => {
        /// A column while it is filled.
        pub(super) enum ColumnBuilder {
            $($name(PrimitiveBuilder<$arrow>),)*
            Boolean(BooleanBuilder),
            Text(StringDictionaryBuilder<Int32Type>),
        }

        impl ColumnBuilder {
            /// `None` for a type that no text file has. Takes no memory before values come: a file
            /// may have many columns and few rows.
            pub fn new(data_type: &DataType) -> Option<Self> {
                match data_type {
                    $(DataType::$name => Some(Self::$name(PrimitiveBuilder::with_capacity(0))),)*
                    DataType::Boolean => Some(Self::Boolean(BooleanBuilder::with_capacity(0))),
                    other if *other == text_type() => {
                        Some(Self::Text(StringDictionaryBuilder::with_capacity(0, 0, 0)))
                    }
                    _ => None,
                }
            }

            /// Adds a value; `false` if the text is none of this type.
            pub fn push_text(&mut self, cell: &str) -> bool {
                match self {
                    $(Self::$name(builder) => match cell.parse::<$native>() {
                        Ok(value) => builder.append_value(value),
                        Err(_) => return false,
                    },)*
                    Self::Boolean(builder) => match parse_bool(cell) {
                        Some(value) => builder.append_value(value),
                        None => return false,
                    },
                    // Fails past 2^31 different strings only, far more than the rows of a batch.
                    Self::Text(builder) => return builder.append(cell).is_ok(),
                }
                true
            }

            /// Adds a number from its bytes; `false` if they are not as many as it has.
            pub fn push_bytes(&mut self, bytes: &[u8], big_endian: bool) -> bool {
                match self {
                    $(Self::$name(builder) => {
                        let Ok(bytes) = bytes.try_into() else { return false };
                        builder.append_value(match big_endian {
                            true => $native::from_be_bytes(bytes),
                            false => $native::from_le_bytes(bytes),
                        });
                        true
                    })*
                    Self::Boolean(_) | Self::Text(_) => false,
                }
            }

            /// Adds nothing: the value is absent.
            pub fn push_absent(&mut self) {
                match self {
                    $(Self::$name(builder) => builder.append_null(),)*
                    Self::Boolean(builder) => builder.append_null(),
                    Self::Text(builder) => builder.append_null(),
                }
            }

            /// The column so far; the builder is empty again.
            pub fn finish(&mut self) -> ArrayRef {
                match self {
                    $(Self::$name(builder) => Arc::new(builder.finish()),)*
                    Self::Boolean(builder) => Arc::new(builder.finish()),
                    Self::Text(builder) => Arc::new(builder.finish()),
                }
            }
        }

        /// A column whose values are looked at one by one.
        pub(super) enum Values<'a> {
            $($name(&'a PrimitiveArray<$arrow>),)*
            Boolean(&'a BooleanArray),
            Text(&'a Int32Array, &'a StringArray),
        }

        impl<'a> Values<'a> {
            /// `None` for a type that [`plain`] does not give, or a list.
            pub fn new(array: &'a dyn Array) -> Option<Self> {
                match array.data_type() {
                    $(DataType::$name => array.as_primitive_opt().map(Self::$name),)*
                    DataType::Boolean => array.as_boolean_opt().map(Self::Boolean),
                    DataType::Dictionary(..) => {
                        let array = array.as_dictionary_opt::<Int32Type>()?;
                        Some(Self::Text(array.keys(), array.values().as_string_opt()?))
                    }
                    _ => None,
                }
            }

            fn is_absent(&self, row: usize) -> bool {
                match self {
                    $(Self::$name(array) => array.is_null(row),)*
                    Self::Boolean(array) => array.is_null(row),
                    Self::Text(keys, _) => keys.is_null(row),
                }
            }

            /// Writes the value as text: a float as the shortest that reads back as itself.
            pub fn write_text(&self, row: usize, out: &mut Vec<u8>) {
                if self.is_absent(row) {
                    return;
                }
                // Writing to memory cannot fail.
                let _ = match self {
                    // The form for debugging keeps `1.0` apart from the integer `1`.
                    $(Self::$name(array) => write!(out, "{:?}", array.value(row)),)*
                    Self::Boolean(array) => write!(out, "{}", array.value(row)),
                    Self::Text(..) => out.write_all(self.text(row).unwrap_or_default().as_bytes()),
                };
            }

            /// Appends the bytes of a number; an absent one is NaN, or 0.
            pub fn write_bytes(&self, row: usize, out: &mut Vec<u8>) {
                match self {
                    Self::Float32(array) if array.is_null(row) => {
                        out.extend(f32::NAN.to_le_bytes());
                    }
                    Self::Float64(array) if array.is_null(row) => {
                        out.extend(f64::NAN.to_le_bytes());
                    }
                    $(Self::$name(array) => out.extend(array.value(row).to_le_bytes()),)*
                    Self::Boolean(array) => out.push(u8::from(array.value(row))),
                    Self::Text(keys, _) => out.extend(keys.value(row).to_le_bytes()),
                }
            }

            /// A number as a float; NaN if it is absent or no number.
            pub fn float(&self, row: usize) -> f64 {
                match self {
                    _ if self.is_absent(row) => f64::NAN,
                    $(Self::$name(array) => array.value(row) as f64,)*
                    Self::Boolean(array) => f64::from(u8::from(array.value(row))),
                    Self::Text(..) => f64::NAN,
                }
            }

            /// A number without loss if it is an integer.
            // All numbers are listed, and floats come first.
            #[allow(unreachable_patterns)]
            fn integer(&self, row: usize) -> Option<i128> {
                let float = match self {
                    Self::Float32(array) => f64::from(array.value(row)),
                    Self::Float64(array) => array.value(row),
                    $(Self::$name(array) => return Some(array.value(row) as i128),)*
                    Self::Boolean(_) | Self::Text(..) => return None,
                };
                (float.fract() == 0.0 && float.abs() < 9.1e18).then_some(float as i128)
            }
        }

        /// The same numbers as another type.
        ///
        /// Fails with a row whose value the type does not hold, or with `None` if the types do not
        /// convert at all. Floats are rounded.
        // All numbers are listed, and floats come first.
        #[allow(unreachable_patterns)]
        pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Option<usize>> {
            if array.data_type() == to {
                return Ok(array.clone());
            }
            let Some(values) = Values::new(array) else { return Err(None) };
            if matches!(values, Values::Boolean(_) | Values::Text(..)) {
                return Err(None);
            }
            let rows = 0..array.len();
            match to {
                DataType::Float32 => {
                    let floats = rows.map(|row| {
                        (!values.is_absent(row)).then(|| values.float(row) as f32)
                    });
                    Ok(Arc::new(floats.collect::<PrimitiveArray<Float32Type>>()))
                }
                DataType::Float64 => {
                    let floats =
                        rows.map(|row| (!values.is_absent(row)).then(|| values.float(row)));
                    Ok(Arc::new(floats.collect::<PrimitiveArray<Float64Type>>()))
                }
                $(DataType::$name => {
                    let mut builder = PrimitiveBuilder::<$arrow>::with_capacity(array.len());
                    for row in rows {
                        if values.is_absent(row) {
                            builder.append_null();
                            continue;
                        }
                        let value = values.integer(row).ok_or(Some(row))?;
                        if value < $native::MIN as i128 || value > $native::MAX as i128 {
                            return Err(Some(row));
                        }
                        builder.append_value(value as $native);
                    }
                    Ok(Arc::new(builder.finish()))
                })*
                _ => Err(None),
            }
        }

        /// Whether values are numbers of a type that files have.
        pub(super) fn is_number(data_type: &DataType) -> bool {
            matches!(data_type, $(DataType::$name)|*)
        }
    };
}

for_numbers!(define);

impl Values<'_> {
    /// The string of a row; `None` if it is absent, or no string.
    pub fn text(&self, row: usize) -> Option<&str> {
        let Self::Text(keys, words) = self else { return None };
        let key = usize::try_from(keys.value(row)).ok()?;
        (keys.is_valid(row) && key < words.len()).then(|| words.value(key))
    }
}

/// What programs write for the two values of a Boolean.
pub(super) fn parse_bool(cell: &str) -> Option<bool> {
    match cell {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The type that values of a type become where they are looked at one by one; `None` if they have
/// no place there. Halves become floats.
pub(super) fn plain_type(data_type: &DataType) -> Option<DataType> {
    batch_type(data_type, false)
}

/// The type that values of a type become in batches, where halves stay halves.
pub(super) fn kept_type(data_type: &DataType) -> Option<DataType> {
    batch_type(data_type, true)
}

fn batch_type(data_type: &DataType, halves: bool) -> Option<DataType> {
    match data_type {
        DataType::Boolean => Some(DataType::Boolean),
        DataType::Float16 if halves => Some(DataType::Float16),
        DataType::Float16 => Some(DataType::Float32),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(text_type()),
        DataType::Dictionary(_, value) => plain_type(value).filter(|plain| *plain == text_type()),
        DataType::FixedSizeList(item, width) if *width > 0 => {
            let kept = batch_type(item.data_type(), halves)?;
            let is_kept = is_number(&kept) || matches!(kept, DataType::Boolean | DataType::Float16);
            let item = Field::new(item.name(), kept, item.is_nullable());
            is_kept.then(|| DataType::FixedSizeList(Arc::new(item), *width))
        }
        number => is_number(number).then(|| number.clone()),
    }
}

/// The same values in the type of [`plain_type`].
pub(super) fn plain(array: &ArrayRef) -> Option<ArrayRef> {
    in_batch(array, false)
}

/// The same values in the type of [`kept_type`].
pub(super) fn kept(array: &ArrayRef) -> Option<ArrayRef> {
    in_batch(array, true)
}

fn in_batch(array: &ArrayRef, halves: bool) -> Option<ArrayRef> {
    let to = batch_type(array.data_type(), halves)?;
    if *array.data_type() == to {
        return Some(array.clone());
    }
    if *array.data_type() == DataType::Float16 {
        let halves = array.as_primitive_opt::<Float16Type>()?;
        let floats = halves.iter().map(|half| half.map(f32::from));
        return Some(Arc::new(floats.collect::<PrimitiveArray<Float32Type>>()));
    }
    if let DataType::FixedSizeList(item, width) = to {
        let list = array.as_fixed_size_list_opt()?;
        let nulls = list.nulls().cloned();
        let values = in_batch(list.values(), halves)?;
        let list = FixedSizeListArray::try_new(item, width, values, nulls).ok()?;
        return Some(Arc::new(list));
    }
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    let mut push = |word: Option<&str>| match word {
        Some(word) => builder.append(word).is_ok(),
        None => {
            builder.append_null();
            true
        }
    };
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let words = plain(dictionary.values())?;
            let words = Values::new(&words)?;
            // Keys of an empty dictionary are all absent, and cannot be normalised.
            let keys = match dictionary.values().is_empty() {
                true => vec![0; array.len()],
                false => dictionary.normalized_keys(),
            };
            for (row, &key) in keys.iter().enumerate() {
                let word = array.is_valid(row).then(|| words.text(key)).flatten();
                push(word).then_some(())?;
            }
        }
        DataType::Utf8 => {
            for word in array.as_string_opt::<i32>()? {
                push(word).then_some(())?;
            }
        }
        DataType::LargeUtf8 => {
            for word in array.as_string_opt::<i64>()? {
                push(word).then_some(())?;
            }
        }
        _ => {
            for word in array.as_string_view_opt()? {
                push(word).then_some(())?;
            }
        }
    }
    Some(Arc::new(builder.finish()))
}

/// Values picked from columns of one type: the number of the column, and the row in it.
pub(super) fn pick(
    columns: &[ArrayRef],
    picked: impl Iterator<Item = (usize, usize)>,
) -> Result<ArrayRef, ArrowError> {
    let data: Vec<ArrayData> = columns.iter().map(|column| column.to_data()).collect();
    let mut made = MutableArrayData::new(data.iter().collect(), false, picked.size_hint().0);
    for (column, row) in picked {
        made.try_extend(column, row, row + 1)?;
    }
    Ok(make_array(made.freeze()))
}

/// Columns without lists: one of `n` components becomes `n`, named `normal_0`, `normal_1`, ….
pub(super) fn flat_fields(fields: &Fields) -> Vec<Field> {
    let mut flat = Vec::new();
    for field in fields {
        match plain_type(field.data_type()) {
            Some(DataType::FixedSizeList(item, width)) => {
                flat.extend((0..width).map(|component| {
                    let name = format!("{}_{component}", field.name());
                    Field::new(name, item.data_type().clone(), field.is_nullable())
                }))
            }
            Some(plain) => flat.push(Field::new(field.name(), plain, field.is_nullable())),
            None => flat.push(field.as_ref().clone()),
        }
    }
    flat
}

/// Columns as [`flat_fields`] names them, to be written row by row.
pub(super) struct FlatColumn {
    array: ArrayRef,
    /// How many values a row has, and which of them this column is.
    width: usize,
    component: usize,
    /// The list that the values are from, which may be absent as a whole.
    list: Option<ArrayRef>,
}

impl FlatColumn {
    /// `None` if the type has no place in files.
    pub fn of(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = plain(array)?;
        let Some(list) = array.as_fixed_size_list_opt() else {
            return Some(vec![Self { array, width: 1, component: 0, list: None }]);
        };
        let width = usize::try_from(list.value_length()).ok()?;
        let values = list.values();
        let flat = (0..width).map(|component| Self {
            array: values.clone(),
            width,
            component,
            list: Some(array.clone()),
        });
        Some(flat.collect())
    }

    /// The values, to be asked for at [`FlatColumn::at`].
    pub fn values(&self) -> Option<Values<'_>> {
        Values::new(&self.array)
    }

    /// Where the value of a row is among the values; `None` if it is absent.
    pub fn at(&self, row: usize) -> Option<usize> {
        let at = row * self.width + self.component;
        let absent = self.list.as_ref().is_some_and(|list| list.is_null(row));
        (!absent && !self.array.is_null(at)).then_some(at)
    }
}
