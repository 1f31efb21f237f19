"""Many runs on many machines: what is to be run, who runs it, how it stands."""
