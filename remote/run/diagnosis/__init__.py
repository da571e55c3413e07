"""Why a run failed, stalled or is slow, and when it ends: from its hosts and ranks."""
