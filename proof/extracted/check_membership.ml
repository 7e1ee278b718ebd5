(* SPDX-License-Identifier: BSD-2-Clause

   Gives what the records were in runs of guarded mode to the checker of MembershipTraces.v (traces.ml, proof/README.md).

   Each quorum that an init made is a run of its own. The first pass makes facts of the lines, and looks for what they do not
   say: which promises and acceptances an operator has counted, and when; what a node has recovered from; and which witnesses
   an epoch was settled with. The second pass gives the facts to the checker, from nothing: a fault of the first one cannot
   make it accept anything. *)
open Proved
open Traces

exception Refused_here of string

(* A node lost its data before this line, though its former server lived on. *)
exception Lost_before of int * int

(* ---- lines ---------------------------------------------------------------------------------------------------- *)

type row = {
  server : int;
  intact : bool;
  writer : int; (* client + 1; 0: none *)
  raised_ : bool;
  quorum : string; (* and which init made it; "": there is no record *)
  id : string;
  nonce_ : string;
  loss : string;
  epoch_ : int;
  extra : epoch_seen;
  promised : int;
  accepted_ : (int * (char * string)) option;
  members_ : string list;
}

type line =
  | Record of row
  | Read of { of_server : int; by : int; message : int; of_fences : bool }
  | Received of int
  | Clock of int * segment
  | Drift of int * int

let ms = 1_000_000

let line_of text =
  match String.split_on_char ' ' text with
  | "H" :: _ :: server :: intact :: writer :: raised :: rest -> (
      let row =
        { server = number server; intact = false; writer = number writer; raised_ = raised = "1"; quorum = ""; id = ""; nonce_ = ""; loss = "";
          epoch_ = 0; extra = { is_settled = false; ttl_seen = 0; ttl_next_seen = 0 }; promised = 0; accepted_ = None; members_ = [] }
      in
      match rest with
      | [] -> Record row
      | quorum :: id :: nonce_ :: loss :: begun :: epoch :: settled :: ttl :: next :: ballot :: by :: kind :: what :: members_ ->
          Record
            { row with intact = intact = "1"; quorum = quorum ^ " " ^ begun; id; nonce_; loss; epoch_ = number epoch;
              extra = { is_settled = settled = "1"; ttl_seen = number ttl * ms; ttl_next_seen = number next * ms };
              promised = number ballot; accepted_ = (if by = "0" then None else Some (number by, (kind.[0], what))); members_ }
      | _ -> raise (Unreadable text))
  | [ "J"; _; server; client; message; fences ] ->
      Read { of_server = number server; by = 1 + number client; message = number message; of_fences = fences = "1" }
  | [ "a"; _; message ] -> Received (number message)
  | [ "C"; client; from; shown; rate ] -> Clock (number client, { from = number from; shown = number shown; rate = number rate })
  | "D" :: _ :: ppm :: fixed :: _ -> Drift (number ppm, number fixed)
  | _ -> raise (Unreadable text)

let time_of text =
  match String.split_on_char ' ' text with ("H" | "J" | "a") :: at :: _ -> number at | _ -> 0

(* ---- the run of one quorum -------------------------------------------------------------------------------------- *)

type observation = {
  place_in : int * int; (* in the two logs, from their beginnings *)
  of_node_ : int;
  reader : int;
  read_at : int; (* the moment *)
  mutable got : int option; (* the moment at which the client has received it *)
  record : Proved.record;
}

type pass = {
  quorum_ : string;
  base_epoch : int;
  world : world;
  y : system;
  z : system0;
  moments : (int, int) Hashtbl.t; (* their times *)
  mutable at : int;
  mutable b : both;
  mutable facts : fact list; (* the latest first *)
  ids : (string, int) Hashtbl.t;
  rows : (int, row) Hashtbl.t; (* the present ones, by server *)
  owner : (int, int) Hashtbl.t; (* the server that is this node *)
  unseen : (int, unit) Hashtbl.t; (* first members that have not been intact yet *)
  gone : (int, unit) Hashtbl.t; (* servers that live on though another one is their node *)
  claimed : (string, int * int) Hashtbl.t; (* the line and the moment at which a loss was first written down *)
  mutable observations : observation list; (* the latest first *)
  by_message : (int, observation) Hashtbl.t;
  operators : (int * int * int, int) Hashtbl.t; (* by writer, ballot, epoch *)
  wishes : (int * int * int, change * int list ref) Hashtbl.t; (* what they make nodes accept, and which nodes *)
}

let s p = p.b.decides
let q p = p.b.settles
let locks p = (q p).locks

let try_fact p fact =
  Hashtbl.replace p.moments (now_of p.b) p.at;
  match check_one p.y p.z p.b fact with
  | Some b -> p.b <- b; p.facts <- fact :: p.facts; true
  | None -> false

let would p b fact = check_one p.y p.z b fact
let fact p why fact = if not (try_fact p fact) then raise (Refused_here why)
let happens p why event = fact p why (Happens event)

let id p name =
  match Hashtbl.find_opt p.ids name with
  | Some n -> n
  | None -> let n = Hashtbl.length p.ids in Hashtbl.replace p.ids name n; n

let change_of p = function
  | 'a', name -> Adds (id p name)
  | 'r', name -> Removes (id p name)
  | 't', ttl -> Sets_ttl_max (number ("0x" ^ ttl))
  | _ -> raise (Unreadable "a change")

let record_in p row =
  { nonce = 0; epoch = row.epoch_ - p.base_epoch; members = List.map (id p) row.members_; ballot = row.promised;
    accepted = Option.map (fun (ballot, change) -> (ballot, change_of p change)) row.accepted_ }

let rec subsets = function
  | [] -> [ [] ]
  | x :: rest -> let without = subsets rest in List.map (fun s -> x :: s) without @ without
let largest_first l = List.stable_sort (fun a b -> compare (List.length b) (List.length a)) (subsets l)

let place p o = List.length (s p).log - 1 - fst o.place_in
let place_too p o = List.length (locks p).reads - 1 - snd o.place_in
let seen_by p client good = List.filter (fun o -> o.reader = client && o.got <> None && good o) p.observations
let nodes p = List.init (Hashtbl.length p.ids) Fun.id
let has_record p n r = Option.is_some r && (s p).record_of n = r

(* ---- what becomes decided --------------------------------------------------------------------------------------- *)

(* A majority has promised: at the first moment at which those have from which the operator then wants more, and from which
   it follows what it wants. *)
let promise_counts p key operator =
  match Hashtbl.find_opt p.wishes key with
  | Some (change, those) when (s p).proposed operator = None ->
      let held = List.filter (fun n -> match (s p).promise_of operator n with Some r -> is_unchanged (s p) n r.nonce | None -> false) (nodes p) in
      let suits held =
        List.for_all (fun n -> List.mem n held || (s p).record_of n = None) !those
        && match would p p.b (Happens (Is_promised (operator, held))) with
           | Some b -> (match b.decides.proposed operator with Some (_, c) -> same_change c change | None -> false)
           | None -> false
      in
      Option.iter (fun held -> ignore (try_fact p (Happens (Is_promised (operator, held))))) (List.find_opt suits (largest_first held))
  | _ -> ()

let is_decided p epoch = List.exists (fun (e, _) -> e = epoch) (s p).decided

let acceptance_counts p operator =
  let held = List.filter (fun n -> match (s p).accepted_at operator n with Some k -> is_unchanged (s p) n k | None -> false) (nodes p) in
  match (s p).asked operator with
  | Some { of_epoch; base } when (s p).chosen_by operator = None ->
      let known = is_decided p (of_epoch + 1) in
      if try_fact p (Happens (Is_accepted (operator, held))) && not known then begin
        let l = List.assoc (of_epoch + 1) (s p).decided in
        fact p "a change that begins before the last one is settled"
          (match (s p).proposed operator with
          | Some (_, Sets_ttl_max ttl) -> Settles (Revises (held, ttl * ms))
          | _ -> decides_too l held)
      end
  | _ -> ()

let promises p n row (r : Proved.record) =
  let key = (row.writer, r.ballot, r.epoch) in
  let operator =
    match Hashtbl.find_opt p.operators key with
    | Some operator -> operator
    | None ->
        let operator = Hashtbl.length p.operators in
        let wish = match Hashtbl.find_opt p.wishes key with Some (change, _) -> change | None -> Sets_ttl_max 0 in
        (match seen_by p row.writer (fun o -> o.record.epoch = r.epoch) with
        | o :: _ -> happens p "it begins" (Begins (operator, place p o, r.ballot, wish))
        | [] -> raise (Refused_here "an operator that has not read this epoch"));
        Hashtbl.replace p.operators key operator;
        operator
  in
  happens p "a promise" (Promises (operator, n));
  promise_counts p key operator

let accepts p n row (r : Proved.record) ballot =
  match Hashtbl.find_opt p.operators (row.writer, ballot, r.epoch) with
  | None -> raise (Refused_here "an acceptance that nobody has promised")
  | Some operator ->
      if (s p).proposed operator = None then
        raise (Refused_here "an acceptance of what does not follow from promises of a majority at one moment");
      happens p "an acceptance" (Accepts (operator, n));
      acceptance_counts p operator

(* ---- what nodes take over --------------------------------------------------------------------------------------- *)

(* The node's record is of this epoch. *)
let takes p n epoch =
  let i, k = place_of (s p).decided epoch in
  let present = match ((locks p).nodes n).stands with Intact e -> e | Lost -> -1 in
  if i > present then fact p "a list that is not decided" (switches_too n i);
  if i = (locks p).newest && (i = present || k > 0) then fact p "a revision that is not decided" (Settles (Takes (n, k)))

(* By the operator whose change it is, or by any client that has read it elsewhere. *)
let moves_on p n row (r : Proved.record) =
  let before = match (s p).record_of n with Some r -> r.epoch | None -> 0 in
  let leads event =
    match would p p.b (Happens event) with
    | Some b -> (match b.decides.record_of n with Some now -> now.epoch = r.epoch && now.members = r.members | None -> false) && try_fact p (Happens event)
    | None -> false
  in
  let own = Hashtbl.fold (fun (w, _, e) o l -> if w = row.writer && e = before then Switches (o, n) :: l else l) p.operators [] in
  let read = List.map (fun o -> Follows (n, place p o)) (seen_by p row.writer (fun o -> o.record.epoch = r.epoch)) in
  if not (List.exists leads (own @ read)) then raise (Refused_here "an epoch that is not decided, or not known there");
  takes p n r.epoch

(* What the client has read since the loss: of each node the latest, or if that does not explain it, what came before. A node
   whose former server lives on is lost when this loss is written down. *)
let installs p n row (r : Proved.record) =
  let is_lost = (s p).record_of n = None in
  let other f otherwise m = if m = n && not is_lost then otherwise else f m in
  let b = { p.b with decides = { (s p) with record_of = other (s p).record_of None; lost_at = other (s p).lost_at 0 } } in
  let event l = Installs (n, List.map (place p) l) in
  let explains l =
    match would p b (Happens (event l)) with
    | Some { decides } -> (
        match decides.record_of n with Some now -> { now with nonce = 0 } = r | None -> false)
    | None -> false
  in
  let line, claimed = Option.value (Hashtbl.find_opt p.claimed row.loss) ~default:(0, 0) in
  let began l = List.fold_left (fun m o -> min m o.read_at) max_int l in
  let rec look tries l =
    let of_same_node o o' = o.of_node_ = o'.of_node_ in
    let latest, older =
      List.fold_left (fun (now, rest) o -> if List.exists (of_same_node o) now then (now, o :: rest) else (o :: now, rest)) ([], []) l
    in
    match List.filter explains (subsets latest) with
    | [] -> if older = [] || tries = 0 then None else look (tries - 1) (List.rev older)
    | found -> Some (List.fold_left (fun a b -> if began b > began a then b else a) (List.hd found) found)
  in
  match look 8 (seen_by p row.writer (fun o -> o.of_node_ <> n && o.record.epoch = r.epoch)) with
  | Some l when is_lost && (let state = (locks p).nodes n in state.born state.life <= claimed) ->
      happens p "a recovery" (event l);
      let waits waiter = try_fact p (installs_too n (List.map (place_too p) l) { waiter; wait_from = claimed; wait_to = began l }) in
      if not (List.exists waits (List.mapi (fun a _ -> a) p.world.clocks)) then raise (Refused_here "a node that has not waited");
      takes p n r.epoch
  | Some _ -> raise (Lost_before (n, line))
  | None -> raise (Refused_here "a node that has not read a majority after its loss, or not taken over what it promised and accepted")

(* ---- how an epoch is settled ------------------------------------------------------------------------------------ *)

let is_latest p epoch = place_of (s p).decided epoch = ((locks p).newest, (q p).latest)
let latest_epoch p = List.fold_left (fun e (e', _) -> max e e') 0 (s p).decided

(* Before an operator reads the fences of these servers. It has read their records of this epoch, and has waited since. *)
let meets p client servers =
  let l = locks p in
  let at = List.filter_map (fun server -> match Hashtbl.find_opt p.rows server with
    | Some row when row.quorum = p.quorum_ && Hashtbl.find_opt p.owner (id p row.id) = Some server -> Some (id p row.id)
    | _ -> None) servers
  in
  let list_before = if (q p).latest = 0 && l.newest > 0 then l.list_of (l.newest - 1) else l.list_of l.newest in
  let first_seen n =
    let good o = o.of_node_ = n && o.record.epoch = latest_epoch p && o.read_at >= (l.nodes n).born (l.nodes n).life in
    match List.rev (seen_by p client good) with [] -> None | o :: _ -> Some (n, o, Option.get o.got)
  in
  let suit = List.filter_map (fun n -> if among list_before n then first_seen n else None) at in
  let in_order = List.sort (fun (_, _, a) (_, _, b) -> compare a b) suit in
  let rec prefixes before = function [] -> [] | x :: rest -> List.rev (x :: before) :: prefixes (x :: before) rest in
  let tries those =
    let wait = { waiter = client - 1; wait_from = List.fold_left (fun m (_, _, got) -> max m got) 0 those; wait_to = now_of p.b } in
    if (q p).latest > 0 then try_fact p (Settles (Meets (List.map (fun (n, _, _) -> n) those, wait)))
    else try_fact p (Settles (Does (Gathers (List.map (fun (_, o, _) -> place_too p o) those, wait))))
  in
  let is_open = if (q p).latest > 0 then not ((q p).finished || (q p).met) else not (l.settled l.newest) && l.gathered l.newest = None in
  if is_open then ignore (List.exists tries (prefixes [] in_order))

let raises p n row (r : Proved.record) =
  if row.raised_ && is_latest p r.epoch then
    ignore (try_fact p (Settles (if (q p).latest > 0 then Is_lifted n else Does (Raises n))))

let marks p row (r : Proved.record) =
  let l = locks p in
  if row.extra.is_settled && is_latest p r.epoch then begin
    let of_list = List.filter (among (l.list_of l.newest)) (nodes p) in
    let why = "an epoch that is marked as settled too early" in
    if (q p).latest > 0 then begin
      if not (q p).finished then fact p why (Settles (Finishes (List.filter (among (q p).lifted) of_list)))
    end
    else if not (l.settled l.newest) then
      fact p why (Settles (Does (Marks (List.filter (fun n -> List.exists (fun ((m, e), _) -> m = n && e = l.newest) l.raised) of_list))))
  end

(* ---- line by line ----------------------------------------------------------------------------------------------- *)

let written p n row (r : Proved.record) =
  let before = match (s p).record_of n with Some r -> r | None -> raise (Refused_here "no record") in
  let is_same = { before with nonce = 0; ballot = r.ballot } = r in
  match r.accepted with
  | _ when r.epoch <> before.epoch -> moves_on p n row r
  | _ when is_same && r.ballot = before.ballot -> happens p "a write" (Writes n); raises p n row r
  | _ when is_same -> promises p n row r
  | Some (ballot, _) -> accepts p n row r ballot
  | None -> raise (Refused_here "an acceptance that is taken back")

let loses p n =
  if (s p).record_of n <> None then begin
    happens p "a loss" (Loses n);
    fact p "a loss" (loses_too n);
    fact p "a loss" (No_record n)
  end;
  Hashtbl.remove p.owner n;
  Hashtbl.remove p.unseen n

let record_came p i row =
  let before = Hashtbl.find_opt p.rows row.server in
  let ours = row.quorum = p.quorum_ in
  let here = row.intact && ours in
  let owns n = Hashtbl.find_opt p.owner n = Some row.server in
  (match before with
  | Some b when b.quorum = p.quorum_ && owns (id p b.id) && not (here && b.id = row.id) -> loses p (id p b.id)
  | _ -> ());
  (* The server that was the node until now lives on beside it. *)
  let lives_on n =
    match Option.bind (Hashtbl.find_opt p.owner n) (Hashtbl.find_opt p.rows) with
    | Some present -> present.server <> row.server && present.nonce_ = row.nonce_
    | None -> false
  in
  if ours && (not row.intact) && not (Hashtbl.mem p.claimed row.loss) then begin
    Hashtbl.replace p.claimed row.loss (i, now_of p.b);
    fact p "time" passes
  end;
  if not here || lives_on (id p row.id) then Hashtbl.remove p.gone row.server;
  Hashtbl.replace p.rows row.server row;
  if here && not (Hashtbl.mem p.gone row.server) then begin
    let n = id p row.id and r = record_in p row in
    let is_known = match (s p).record_of n with Some now -> { now with nonce = 0 } = r | None -> false in
    if owns n then (if (Option.get before).nonce_ <> row.nonce_ then written p n row r)
    else if lives_on n then ()
    else if Hashtbl.mem p.unseen n && is_known then Hashtbl.remove p.unseen n
    else installs p n row r;
    Hashtbl.replace p.owner n row.server;
    marks p row r;
    fact p "another record" (Record_is (n, r, row.extra))
  end

let read_came p server reader message =
  match Hashtbl.find_opt p.rows server with
  | Some row when row.intact && row.quorum = p.quorum_ && Hashtbl.find_opt p.owner (id p row.id) = Some server ->
      let n = id p row.id in
      let read_at = now_of p.b in
      happens p "a read" (Reads n);
      fact p "a read" (reads_too n);
      let o =
        { place_in = (List.length (s p).log - 1, List.length (locks p).reads - 1); of_node_ = n; reader; read_at; got = None;
          record = shown_of (List.hd (s p).log) }
      in
      p.observations <- o :: p.observations;
      Hashtbl.replace p.by_message message o
  | _ -> ()

let received p message =
  match Hashtbl.find_opt p.by_message message with
  | Some o ->
      o.got <- Some (now_of p.b);
      fact p "time" passes
  | None -> ()

(* What an operator makes nodes accept: the change stands in the record that it writes. A node that has recovered has taken it
   over. *)
let note_wishes p lines =
  let present = Hashtbl.create 16 in
  let note row =
    let key ballot = (row.writer, ballot, row.epoch_ - p.base_epoch) in
    match (row.accepted_, Hashtbl.find_opt present row.server) with
    | Some (ballot, change), Some before
      when row.intact && row.quorum = p.quorum_ && before.intact && before.id = row.id && before.accepted_ <> row.accepted_ -> (
        match Hashtbl.find_opt p.wishes (key ballot) with
        | Some (_, those) -> those := id p row.id :: !those
        | None -> Hashtbl.replace p.wishes (key ballot) (change_of p change, ref [ id p row.id ]))
    | _ -> ()
  in
  Array.iter (function Record row -> note row; Hashtbl.replace present row.server row | _ -> ()) lines

(* Before which lines which operator is about to read the fences with which it settles: of each server the last ones that it
   has received before it raises those of others. *)
let settlings lines =
  let present = Hashtbl.create 16 and asked = Hashtbl.create 16 and read = Hashtbl.create 64 and found = Hashtbl.create 16 in
  let raise_by client =
    let mine = Hashtbl.fold (fun (c, server) i l -> if c = client then (i, server) :: l else l) read [] in
    ignore
      (List.fold_left
         (fun servers (i, server) -> Hashtbl.replace found (i, client) (server :: servers); server :: servers)
         [] (List.sort (fun a b -> compare b a) mine))
  in
  Array.iteri
    (fun i -> function
      | Read { of_server; by; message; of_fences = true } -> Hashtbl.replace asked message (i, by, of_server)
      | Received message ->
          Option.iter (fun (i, by, server) -> Hashtbl.replace read (by, server) i) (Hashtbl.find_opt asked message)
      | Record row ->
          (match Hashtbl.find_opt present row.server with
          | Some before when row.raised_ && before.intact && before.id = row.id && before.epoch_ = row.epoch_ -> raise_by row.writer
          | _ -> ());
          Hashtbl.replace present row.server row
      | _ -> ())
    lines;
  found

let world_of lines quorum_ (begin_ : row) members =
  let clocks = Hashtbl.create 8 and least = ref max_int and ppm = ref max_int and fixed = ref max_int in
  Array.iter
    (function
      | Clock (k, g) -> Hashtbl.replace clocks k (g :: Option.value (Hashtbl.find_opt clocks k) ~default:[])
      | Drift (p, f) -> ppm := min !ppm p; fixed := min !fixed f
      | Record row when row.quorum = quorum_ -> least := min !least (min row.extra.ttl_seen row.extra.ttl_next_seen)
      | _ -> ())
    lines;
  { begins_with = members; ttl0 = begin_.extra.ttl_seen; shortest_ttl = !least;
    clocks = List.init (Hashtbl.length clocks) (Hashtbl.find clocks); times = []; ends_at = 0; ppm = !ppm; fixed = !fixed }

let pass_of lines quorum_ (begin_ : row) =
  let ids = Hashtbl.create 16 in
  List.iteri (fun i name -> Hashtbl.replace ids name i) begin_.members_;
  let members = List.init (Hashtbl.length ids) Fun.id in
  let world = world_of lines quorum_ begin_ members in
  let moments = Hashtbl.create 1024 in
  let unseen = Hashtbl.create 16 in
  List.iter (fun n -> Hashtbl.replace unseen n ()) members;
  let time_at m = Option.value (Hashtbl.find_opt moments m) ~default:0 in
  let p =
    { quorum_; base_epoch = begin_.epoch_; world; y = system_of world; z = { (locks_of world) with time_at }; moments; at = 0;
      b = initially world; facts = []; ids; rows = Hashtbl.create 16; owner = Hashtbl.create 16; unseen; gone = Hashtbl.create 4;
      claimed = Hashtbl.create 8; observations = []; by_message = Hashtbl.create 256; operators = Hashtbl.create 16;
      wishes = Hashtbl.create 16 }
  in
  note_wishes p lines;
  p

let second_pass p =
  let last = now_of p.b in
  let times = List.init last (fun m -> Option.value (Hashtbl.find_opt p.moments m) ~default:0) in
  check { p.world with times; ends_at = p.at } (List.rev p.facts) <> None

let rec judge_quorum texts lines quorum begin_ losses =
  let p = pass_of lines quorum begin_ in
  let found = settlings lines in
  let at = ref 0 in
  try
    Array.iteri
      (fun i line ->
        at := i;
        p.at <- max p.at (time_of texts.(i));
        List.iter
          (fun (n, before) ->
            if before = i then begin
              Option.iter (fun server -> Hashtbl.replace p.gone server ()) (Hashtbl.find_opt p.owner n);
              loses p n
            end)
          losses;
        match line with
        | Record row -> record_came p i row
        | Read { of_server; by; message } ->
            Option.iter (meets p by) (Hashtbl.find_opt found (i, by));
            read_came p of_server by message
        | Received message -> received p message
        | Clock _ | Drift _ -> ())
      lines;
    if second_pass p then Accepted 0 else Refused "the second pass"
  with
  | Refused_here why -> Refused (texts.(!at) ^ ": " ^ why)
  | Lost_before (n, i) when not (List.mem (n, i) losses) -> judge_quorum texts lines quorum begin_ ((n, i) :: losses)
  | Lost_before _ -> Refused (texts.(!at) ^ ": two servers are one node")

let judge texts =
  let texts = Array.of_list texts in
  let lines = Array.map line_of texts in
  let begins = Hashtbl.create 4 in
  Array.iter
    (function Record row when row.intact && not (Hashtbl.mem begins row.quorum) -> Hashtbl.replace begins row.quorum row | _ -> ())
    lines;
  Hashtbl.fold
    (fun quorum row verdict -> if verdict = Accepted 0 then judge_quorum texts lines quorum row [] else verdict)
    begins (Accepted 0)

let () = main ~reads:membership judge
