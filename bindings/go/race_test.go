// SPDX-License-Identifier: BSD-2-Clause

//go:build race

package redlock_test

// The detector keeps memory for each goroutine that ever was.
const racing = true
