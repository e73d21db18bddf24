"""What compactions and clusterings will do, and how far they are, on storage."""
