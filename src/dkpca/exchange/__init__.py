"""The rounds of the protocol over different transports. The transport is a detail; the messages are the same."""
