(* SPDX-License-Identifier: BSD-2-Clause

   What the checkers of traces have in common: they read the steps of runs (sim/world/steps.h), give each one to `judge`, and
   say how much of them was judged.
   usage: redlock-sim --seeds N --steps | PROGRAM [--first] [RUNS [EVENTS]]
   --first ends at the first run that is refused.
   Exit 0: none is refused, and so many percent of the runs are judged from the beginning to the end, and so many percent of
   what happened in all runs; 1: not so.

   Of a run in which something happens that the proof leaves out, what came before is judged: the theorems hold for each
   beginning of a trace. *)

exception Unreadable of string

let limit = 1 lsl 61

let number word =
  match int_of_string_opt word with
  | Some n when n >= 0 && n < limit -> n
  | _ -> raise (Unreadable ("not a number that fits: " ^ word))

(* What the world is, and not what happens in it. *)
let timeless = [ "D"; "N"; "C"; "K"; "G"; "T" ]
let happens text = text.[0] <> 'O' && not (List.mem (String.sub text 0 1) timeless)

(* The lines about records are for one checker, all others for the others. *)
let of_records = [ 'H'; 'J'; 'a' ]
let membership text = List.mem text.[0] ('C' :: 'D' :: of_records)
let locks text = not (List.mem text.[0] of_records)

let count_of texts = List.fold_left (fun n text -> if happens text then n + 1 else n) 0 texts

(* What stands for the readers of a key (sim/world/steps.h). In the proof a client gave up and its requests are late: they set
   the key and delete it at any time. So writers are judged, and whoever comes between them; readers are not. *)
let marker = 0xffff_ffff

type verdict =
  | Accepted of int (* of so many lines the theorem on exclusion does not speak *)
  | Refused of string
  | Left of string * string (* from this line on, for this reason *)

(* The lines before that from which on the proof leaves the run out, and the reason. *)
let beginning is_outside texts =
  let rec go before = function
    | [] -> (List.rev before, None)
    | text :: rest -> (
        match String.split_on_char ' ' text with
        | "O" :: _ :: reason -> (List.rev before, Some (String.concat " " reason))
        | words when is_outside words -> (List.rev before, Some "a server's clock steps forward")
        | _ -> go (text :: before) rest)
  in
  go [] texts

let runs = ref 0 and whole = ref 0 and refused = ref 0 and happened = ref 0 and judged = ref 0 and tokens_only = ref 0
let reasons : (string, int) Hashtbl.t = Hashtbl.create 8
let first = ref false

let rec until line = function [] -> [] | text :: rest -> if text == line then [] else text :: until line rest

let count is_outside judge seed texts =
  let before, outside = beginning (is_outside ()) texts in
  let left reason = Hashtbl.replace reasons reason (1 + Option.value (Hashtbl.find_opt reasons reason) ~default:0) in
  incr runs;
  happened := !happened + count_of texts;
  match judge before with
  | Accepted without -> (
      judged := !judged + count_of before;
      tokens_only := !tokens_only + without;
      match outside with Some reason -> left reason | None -> incr whole)
  | Left (line, reason) ->
      judged := !judged + count_of (until line before);
      left reason
  | Refused why ->
      incr refused;
      Printf.printf "seed %d is no run of the proved system: %s\n%!" seed why;
      if !first then exit 1

let percent part all = if all = 0 then 100. else 100. *. float_of_int part /. float_of_int all

let main ?(is_outside = fun () _ -> false) ?(reads = locks) judge =
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 1 lsl 20; space_overhead = 400 };
  let least = ref [] in
  Array.iteri
    (fun i word -> if word = "--first" then first := true else if i > 0 then least := !least @ [ float_of_string word ])
    Sys.argv;
  let run = ref None in
  (try
     while true do
       let line = input_line stdin in
       match !run with
       | None when String.length line > 5 && String.sub line 0 5 = "seed " ->
           run := Some (number (String.sub line 5 (String.length line - 5)), [])
       | None -> raise (Unreadable line)
       | Some (seed, texts) when line = "." ->
           count is_outside judge seed (List.rev texts);
           run := None
       | Some (seed, texts) -> if reads line then run := Some (seed, line :: texts)
     done
   with
  | End_of_file -> if !run <> None then (prerr_endline "the last run has no end"; exit 2)
  | Unreadable line -> (prerr_endline ("cannot read: " ^ line); exit 2));
  let shares = [ percent !whole !runs; percent !judged !happened ] in
  Printf.printf "%d runs, %d refused, %.1f %% judged whole, and %.1f %% of %d events" !runs !refused (List.hd shares)
    (List.nth shares 1) !happened;
  if !tokens_only > 0 then Printf.printf ", of which %.1f %% only for tokens" (percent !tokens_only !happened);
  List.iter
    (fun (reason, n) -> Printf.printf "; left: %s: %d" reason n)
    (List.sort compare (Hashtbl.fold (fun reason n all -> (reason, n) :: all) reasons []));
  print_newline ();
  let rec enough shares least =
    match (shares, least) with share :: shares, l :: least -> share >= l && enough shares least | _ -> true
  in
  if !refused > 0 || !runs = 0 || not (enough shares !least) then exit 1
