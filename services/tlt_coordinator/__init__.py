"""Who does what: detects the tail, lends idle workers to drafter training, takes them back, keeps the ledger."""
