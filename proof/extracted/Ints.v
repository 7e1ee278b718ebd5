(* SPDX-License-Identifier: BSD-2-Clause

   The numbers of all programs that are extracted (proof/README.md): Z and nat become the int of OCaml, of 63 bits. What keeps
   each program from an overflow stands in its own file.

   Comparisons of ints, not of anything; and division by the processor. On numbers that are not negative its division is
   that of Coq, and only those are divided. *)
Require Import ZArith.
Require Export ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.

Extract Constant Z.compare => "fun (x : int) y -> if x = y then Eq else if x < y then Lt else Gt".
Extract Constant Z.eqb => "fun (x : int) y -> x = y".
Extract Constant Z.ltb => "fun (x : int) y -> x < y".
Extract Constant Z.leb => "fun (x : int) y -> x <= y".
Extract Constant Z.div => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""div"" else a / b".
Extract Constant Z.modulo => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""modulo"" else a mod b".
Extract Inlined Constant Nat.eqb => "((=) : int -> int -> bool)".
Extract Inlined Constant Nat.leb => "((<=) : int -> int -> bool)".
Extract Inlined Constant Nat.ltb => "((<) : int -> int -> bool)".
Extract Inlined Constant Nat.div => "(/)".
Extract Inlined Constant Nat.modulo => "(mod)".
Extract Inlined Constant Nat.max => "(Stdlib.max : int -> int -> int)".
