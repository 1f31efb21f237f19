"""The navigation tasks of Safety-Gymnasium 1.0.0, built natively: robots among objects.

As a batch behind the interface of this library, `ucpo.envs.registry.make_task` makes them by name.
As single Gymnasium environments they are ``gymnasium.make("ucpo/SafetyPointGoal1-v0")`` once
`ucpo` has been imported.
"""
