"""Records that each write keeps of its blobs: manifests, checksums, and the external files it refers to."""
