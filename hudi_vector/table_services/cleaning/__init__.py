"""The blob cleaner: marking, sweeping, restoring, and explaining why a file is kept."""
