"""Archives in an object store chosen by URL: `file:///dir` here, `s3://bucket/prefix` by the same code."""
