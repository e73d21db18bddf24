"""Translation of Hadoop's storage settings for the clients that open stores: of S3, and of the others."""
