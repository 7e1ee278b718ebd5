(* SPDX-License-Identifier: BSD-2-Clause

   Compares what src/core computed with what the extracted proof computes (proof/README.md).
   usage: tests/proof/arithmetic COUNT SEED | arithmetic COUNT
   Each record is nineteen numbers of 64 bits; tests/proof/arithmetic.c writes them. Exit 0: all agree. *)

let fields = 19
let names =
  [| "nodes"; "drift_ppm"; "drift_fixed"; "ttl"; "t1"; "voted_at"; "drift"; "votes"; "won"; "validity_end";
     "extend_ttl"; "extend_t1"; "extended_at"; "extended"; "extended_end"; "probed_at"; "validity_left";
     "quarantine_ms"; "quarantine" |]

let fail record what expected =
  Array.iteri (fun i name -> Printf.eprintf "%s %d\n" name record.(i)) names;
  Printf.eprintf "the proof says: %s %d\n" what expected;
  exit 1

let day = 86_400_000 * 1_000_000

(* The premises of drift_fits_64_bits, and readings so small that sums stay below 2^62. *)
let check_limits r =
  let within i least most = if r.(i) < least || r.(i) > most then fail r ("out of the limits: " ^ names.(i)) most in
  let reading = 1 lsl 60 in
  within 0 1 15; within 1 0 500_000; within 2 0 (60_000 * 1_000_000); within 3 2 day; within 4 0 reading;
  within 5 r.(4) reading; within 10 1 day; within 11 r.(5) reading; within 12 r.(11) reading;
  within 15 r.(12) reading; within 17 1 86_400_000

let wins = ref 0 and expired = ref 0 and last_moment = ref 0 and too_late = ref 0
let extended = ref 0 and not_extended = ref 0 and rests = ref 0 and gone = ref 0

let count what condition = if condition then incr what

let compare_record r =
  check_limits r;
  let ppm = r.(1) and fixed = r.(2) and ttl = r.(3) and t1 = r.(4) and voted_at = r.(5) in
  let same i expected = if r.(i) <> expected then fail r names.(i) expected in
  let truth b = if b then 1 else 0 in
  same 6 (Proved.drift_of ppm fixed ttl);
  same 7 (Proved.majority_of r.(0));
  let until = Proved.end_of ppm fixed t1 ttl in
  let won = Proved.inside_until ppm fixed until voted_at in
  same 8 (truth won);
  count wins won; count expired (not won);
  count last_moment (voted_at = until - 1); count too_late (voted_at = until);
  if won then begin
    same 9 until;
    (* Extended: only inside the validity that it extends, and it never shortens. *)
    let extends = Proved.inside_until ppm fixed until r.(12) in
    same 13 (truth extends);
    let until' = if extends then max until (Proved.end_of ppm fixed r.(11) r.(10)) else until in
    if extends then same 14 until';
    let inside = extends && Proved.inside_until ppm fixed until' r.(15) in
    same 16 (if inside then until' - r.(15) else 0);
    count extended extends; count not_extended (not extends); count rests inside; count gone (extends && not inside)
  end;
  let wait = r.(17) * 1_000_000 in
  same 18 (wait + Proved.drift_of ppm fixed wait)

let () =
  let expected = int_of_string Sys.argv.(1) in
  set_binary_mode_in stdin true;
  let size = fields * 8 in
  let buffer = Bytes.create (size * 1024) in
  let r = Array.make fields 0 in
  let rec read_records filled total =
    let got = input stdin buffer filled (Bytes.length buffer - filled) in
    if got = 0 then (if filled <> 0 then failwith "the input ends within a record"); 
    if got = 0 then total
    else begin
      let whole = (filled + got) / size in
      for i = 0 to whole - 1 do
        for j = 0 to fields - 1 do r.(j) <- Int64.to_int (Bytes.get_int64_ne buffer ((i * size) + (j * 8))) done;
        compare_record r
      done;
      let rest = filled + got - (whole * size) in
      Bytes.blit buffer (whole * size) buffer 0 rest;
      read_records rest (total + whole)
    end
  in
  let total = read_records 0 0 in
  if total < expected then (Printf.eprintf "only %d records of %d\n" total expected; exit 1);
  Printf.printf
    "%d inputs agree: %d won (%d in the last nanosecond), %d expired (%d by one); %d extended, %d too late; %d inside, %d not\n"
    total !wins !last_moment !expired !too_late !extended !not_extended !rests !gone;
  let seen = [ wins; expired; last_moment; too_late; extended; not_extended; rests; gone ] in
  if List.exists (fun n -> !n = 0) seen then (prerr_endline "a case never occurred"; exit 1)
