(* SPDX-License-Identifier: BSD-2-Clause

   Compares what src/node did with the requests of readers, writers and slots with what the extracted
   proof does (proof/README.md).
   usage: tests/proof/nodes COUNT SEED | nodes COUNT
   Each line is one request and what is there behind it; tests/proof/nodes.c writes them. Exit 0: all agree. *)

let marker = 5
let shelf = ref Proved.empty_shelf
let slots = ref (Array.make 65 None)
let native = ref false (* the node *)
let lines = ref 0
let counts = Hashtbl.create 16
let count what = Hashtbl.replace counts what (1 + try Hashtbl.find counts what with Not_found -> 0)

let fail line what =
  Printf.eprintf "line %d: %s\nthe proof says: %s\n" !lines line what;
  exit 1

let key_text = function Some (owner, ends) -> Printf.sprintf "%d until %d" owner ends | None -> "nobody"
let list_text l = String.concat ", " (List.map (fun (c, e) -> Printf.sprintf "%d until %d" c e) l)

let rec pairs = function
  | a :: b :: rest -> (a, b) :: pairs rest
  | [] -> []
  | [ _ ] -> failwith "an odd number of numbers"

let key_of (owner, ends) = if owner < 0 then None else Some (owner, ends)

let rec split n l =
  if n = 0 then ([], l) else match l with x :: l -> let a, b = split (n - 1) l in (x :: a, b) | [] -> failwith "a short line"

let shared line = function
  | action :: client :: ttl :: now :: granted :: owner :: ends :: number :: readers ->
      let shelf', granted' = Proved.serve_shared !native action client ttl now !shelf in
      shelf := shelf';
      let key', places' = Proved.see_shelf marker now shelf' in
      let key = key_of (owner, ends) and readers = List.sort compare (pairs readers) in
      if List.length readers <> number then failwith "a short list";
      if granted' <> (granted = 1) then fail line (if granted' then "granted" else "denied");
      if key' <> key then fail line ("key: " ^ key_text key');
      (* On a native node the list goes with its key; on a stock node it is there on its own. *)
      let listed = (not !native) || (match key' with Some (o, _) -> o = marker | None -> false) in
      if listed && List.sort compare places' <> readers then fail line ("readers: " ^ list_text places');
      count (Printf.sprintf "shared %d %s" action (if granted' then "granted" else "not"));
      if List.length readers > 1 then count "several readers"
  | _ -> failwith "a short line"

let numbers client = match client with 0 | 1 | 2 -> Some 3 | 3 -> Some 2 | _ -> None

let slot line = function
  | action :: client :: number :: ttl :: now :: tried :: rest ->
      let order, rest = split tried rest in
      let granted, keys = match rest with g :: _ :: keys -> (g, List.map key_of (pairs keys)) | _ -> failwith "a short line" in
      if number <> (match numbers client with Some k -> k | None -> 0) then failwith "another number";
      let before = Array.map (fun key -> Proved.expire_slots !native now (fun _ -> key) 0) !slots in
      (* A client that knows no slots sends SET NX, which refuses its own key too; the script would not. *)
      let action' = if number = 0 && action = 0 then 1 else action in
      let is_own k = match Proved.see_slot k (fun k -> before.(k)) with Some (o, _) -> o = client | None -> false in
      let own = number = 0 && action' = 1 && is_own (List.hd order) in
      let held', taken = Proved.serve_slots !native numbers action' order client ttl now (fun k -> before.(k)) in
      let taken = match taken with Some k when not own -> k | _ -> 0 in
      (* SET NX leaves the other keys of its client alone: it has one resource. *)
      let held' k =
        match held' k with
        | None when number = 0 && action' = 1 && k <> List.hd order -> (
            if is_own k then before.(k) else None)
        | key -> key in
      slots := Array.init 65 held';
      if taken <> granted then fail line (Printf.sprintf "slot %d" taken);
      List.iteri
        (fun i key ->
          let key' = Proved.see_slot (i + 1) held' in
          if key' <> key then fail line (Printf.sprintf "slot %d: %s" (i + 1) (key_text key')))
        keys;
      count (Printf.sprintf "slot %d %s" action (if taken > 0 then "granted" else "not"))
  | _ -> failwith "a short line"

let () =
  let expected = int_of_string Sys.argv.(1) in
  let total = ref 0 in
  (try
     while true do
       let line = input_line stdin in
       incr lines;
       match String.split_on_char ' ' line with
       | [ "reset"; kind ] -> native := kind = "native"; shelf := Proved.empty_shelf; slots := Array.make 65 None
       | "shared" :: fields -> incr total; shared line (List.map int_of_string fields)
       | "slot" :: fields -> incr total; slot line (List.map int_of_string fields)
       | _ -> failwith ("what is " ^ line)
     done
   with End_of_file -> ());
  if !total < expected then (Printf.eprintf "only %d requests of %d\n" !total expected; exit 1);
  let seen what = try Hashtbl.find counts what with Not_found -> 0 in
  let actions = [ "shared 0"; "shared 1"; "shared 3"; "shared 4"; "slot 0"; "slot 1"; "slot 2" ] in
  List.iter
    (fun action ->
      if seen (action ^ " granted") = 0 || seen (action ^ " not") = 0 then (prerr_endline ("never both: " ^ action); exit 1))
    actions;
  let sum prefix = Hashtbl.fold (fun k n s -> if String.length k > String.length prefix && String.sub k 0 (String.length prefix) = prefix then s + n else s) counts 0 in
  Printf.printf "%d requests agree: %d of readers and writers (%d with several readers behind them), %d of slots\n" !total
    (sum "shared ") (seen "several readers") (sum "slot ")
