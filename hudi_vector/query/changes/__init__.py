"""The changes in the nearest rows of fixed queries between two snapshots."""
