"""The velocity tasks of Safety-Gymnasium 1.0.0, built natively: robots that may not run too fast.

As a batch behind the interface of this library, `ucpo.envs.registry.make_task` makes them by name.
As single Gymnasium environments they are ``gymnasium.make("ucpo/SafetyHopperVelocity-v1")`` once
`ucpo` has been imported.
"""
