"""Blobs in object storage, on a server that speaks S3."""
