// SPDX-License-Identifier: BSD-2-Clause

//go:build !race

package redlock_test

const racing = false
