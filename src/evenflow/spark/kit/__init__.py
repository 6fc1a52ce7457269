"""What every plane on Spark shares: storage, control log, routes, samples, controller, trace and verbs."""
