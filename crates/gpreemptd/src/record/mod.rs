//! What happened: events, distributions, the audit log.
