"""Options that several sync methods have. Literals only: they are read without being imported (see
`training.options`)."""

GRANULARITY = {
    "default": "bucket",
    "help": "what is exchanged at once: each parameter, buckets, or all gradients",
    "choices": ("parameter", "bucket", "flat"),
}
GRANULARITY_OF_BUCKETS = {
    "default": "bucket",
    "help": "what is exchanged at once: buckets, or all gradients",
    "choices": ("bucket", "flat"),
}
BUCKET_MB = {
    "default": 2.5,
    "help": "size in MB at which a bucket is closed",
    "above": 0,
    "requires": {"granularity": ("bucket",)},
}
