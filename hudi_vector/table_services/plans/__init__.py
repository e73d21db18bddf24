"""Plans of compactions and clusterings, and the state of their runs on storage."""
