module redlock.invalid/linear

go 1.26.0

require github.com/anishathalye/porcupine v1.0.0
