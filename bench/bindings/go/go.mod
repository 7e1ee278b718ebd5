module redlock.invalid/bench/go

go 1.24

require redlock.example.org/go v0.0.0

replace redlock.example.org/go => ../../../bindings/go
