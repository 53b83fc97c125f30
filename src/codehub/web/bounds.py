"""How much may be sent to the web faces. The edge refuses what they would, before they see it."""

BODY_BYTES_MAX = 1_048_576
