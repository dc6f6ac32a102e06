use std::sync::Arc;

use crate::{
    Buffer, Condition, CreateOptions, Edit, FileStore, Key, Leftover, Listing, Object,
    ObjectWriter, Pending, ReadCost, Reads, Recovery, Staged, Store, StoreError, Version,
};

/// A pointer to a store is a store, so that wrappers take shared and boxed ones.
macro_rules! forward {
    ($pointer:ty) => {
        impl<S: Store + ?Sized> Store for $pointer {
            fn name(&self) -> String {
                (**self).name()
            }

            fn identity(&self) -> String {
                (**self).identity()
            }

            fn files(&self) -> Option<&FileStore> {
                (**self).files()
            }

            fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
                (**self).above()
            }

            fn open(
                &self,
                key: &Key,
                expected: Option<&Version>,
            ) -> Result<Arc<dyn Object>, StoreError> {
                (**self).open(key, expected)
            }

            fn read_batch(
                &self,
                workers: &rayon::ThreadPool,
                reads: &mut dyn Reads,
                deliver: &(dyn Fn(usize, Result<Buffer, StoreError>) + Sync),
            ) {
                (**self).read_batch(workers, reads, deliver);
            }

            fn read_cost(&self) -> ReadCost {
                (**self).read_cost()
            }

            fn create(
                &self,
                key: &Key,
                options: CreateOptions,
            ) -> Result<Box<dyn ObjectWriter>, StoreError> {
                (**self).create(key, options)
            }

            fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
                (**self).publish(staged)
            }

            fn publish_later(&self, staged: Vec<Staged>) -> Pending {
                (**self).publish_later(staged)
            }

            fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
                (**self).edit(key)
            }

            fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
                (**self).delete(key, condition)
            }

            fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
                (**self).list(prefix)
            }

            fn leftovers(&self, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
                (**self).leftovers(prefix)
            }

            fn remove_leftover(
                &self,
                prefix: Option<&Key>,
                name: &str,
            ) -> Result<bool, StoreError> {
                (**self).remove_leftover(prefix, name)
            }

            fn recover(&self, key: &Key) -> Result<Recovery, StoreError> {
                (**self).recover(key)
            }

            fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError> {
                (**self).remove_empty_folder(folder)
            }
        }
    };
}

forward!(Arc<S>);
forward!(Box<S>);
