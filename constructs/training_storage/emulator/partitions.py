"""What differs from partition to partition."""

# https://docs.aws.amazon.com/general/latest/gr/rande.html; the other partitions have the common one.
URL_SUFFIXES = {
    "aws-cn": "amazonaws.com.cn",
    "aws-eusc": "amazonaws.eu",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-iso-f": "csp.hci.ic.gov",
}
"""URL suffixes of the partitions that do not have ``amazonaws.com``."""
