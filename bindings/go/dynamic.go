// SPDX-License-Identifier: BSD-2-Clause

//go:build dynamic

package redlock

// #cgo pkg-config: redlock
import "C"
