module redlock.example.org/go

go 1.24
