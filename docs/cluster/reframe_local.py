"""A site for ReFrame: this machine, where mpirun starts processes, of one check at a time."""

site_configuration = {
    "systems": [{
        "name": "here",
        "hostnames": [".*"],
        "partitions": [{
            "name": "cpu",
            "scheduler": "local",
            "launcher": "mpirun",
            "max_jobs": 1,
            "environs": ["frugal"],
        }],
    }],
    "environments": [{"name": "frugal"}],
}
