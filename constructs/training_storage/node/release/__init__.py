"""The safe release of a hot tier: survey, manifest, proof, and the steps that only a proof opens."""
