"""What changed in the nearest rows of a query between two snapshots."""
