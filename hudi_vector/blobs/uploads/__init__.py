"""What each write keeps of its uploads: manifests, checksums, and files that it refers to."""
