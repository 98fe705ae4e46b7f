"""Display of stages and the leaderboard on consoles and in notebooks."""
