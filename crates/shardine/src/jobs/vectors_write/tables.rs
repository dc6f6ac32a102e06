//! Tables of objects.

use serde_json::{Value, json};
use shardine_geometry::zarr_vectors::Builder;
use shardine_geometry::{GeometryError, OBJECT_ID, TableSource};

use super::options::columns;
use crate::Error;
use crate::jobs::JobContext;

/// What is known of objects beside their vertices.
#[derive(Default)]
#[non_exhaustive]
pub struct ObjectTables<'a> {
    /// Their attributes: the column [`OBJECT_ID`] first, then attributes. Rows come in any order,
    /// one for each object, or none.
    pub attributes: Option<&'a mut dyn TableSource>,
    /// The members of groups: the columns [`GROUP`](shardine_geometry::GROUP), a number from 0 on,
    /// and [`OBJECT_ID`].
    pub groups: Option<&'a mut dyn TableSource>,
}

impl<'a> ObjectTables<'a> {
    /// Sets the attributes of objects.
    pub fn attributes(mut self, table: &'a mut dyn TableSource) -> Self {
        self.attributes = Some(table);
        self
    }

    /// Sets the members of groups.
    pub fn groups(mut self, table: &'a mut dyn TableSource) -> Self {
        self.groups = Some(table);
        self
    }

    /// What the marker of a job says of them.
    pub(super) fn request(&self) -> Value {
        let columns = |table: &Option<&'a mut dyn TableSource>| {
            table.as_ref().map(|table| columns(table.columns().fields()))
        };
        json!({
            "attributes": columns(&self.attributes), "groups": columns(&self.groups),
        })
    }

    /// Hands all rows to a builder. `told` makes an error of one in a table with a name.
    pub(super) fn read(
        self,
        context: &JobContext,
        builder: &mut Builder<'_>,
        told: &dyn Fn(GeometryError, &str) -> Error,
    ) -> Result<(), Error> {
        if let Some(table) = self.attributes {
            let wrong = |error| told(error, "attributes of objects");
            let fields = table.columns().fields().iter();
            let fields: Vec<_> = fields.filter(|f| f.name() != OBJECT_ID).cloned().collect();
            builder.object_attributes(&fields.into()).map_err(wrong)?;
            while let Some(rows) = table.next_rows().map_err(wrong)? {
                context.check()?;
                builder.push_objects(&rows).map_err(wrong)?;
            }
        }
        if let Some(table) = self.groups {
            let wrong = |error| told(error, "groups of objects");
            while let Some(rows) = table.next_rows().map_err(wrong)? {
                context.check()?;
                builder.push_groups(&rows).map_err(wrong)?;
            }
        }
        Ok(())
    }
}
