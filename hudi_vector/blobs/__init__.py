"""The room of BLOB columns: their references, containers and readers."""
