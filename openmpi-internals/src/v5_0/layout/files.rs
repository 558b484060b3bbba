//! Files.

layout! {
    /// A file.
    mod file: "struct ompi_file_t" in "ompi/file/file.h" {
        /// Its communicator.
        F_COMM: usize = 0x60, offset "f_comm";
        /// Its functions.
        F_IO_SELECTED_MODULE: usize = 0x210, offset "f_io_selected_module";
    }

    /// The table of functions of a file.
    mod io: "mca_io_base_module_2_0_0_t" in "ompi/mca/io/io.h" {
        /// `io_module_file_open`
        FILE_OPEN: usize = 0, slot "io_module_file_open";
        /// `io_module_file_close`
        FILE_CLOSE: usize = 1, slot "io_module_file_close";
        /// `io_module_file_set_size`
        FILE_SET_SIZE: usize = 2, slot "io_module_file_set_size";
        /// `io_module_file_preallocate`
        FILE_PREALLOCATE: usize = 3, slot "io_module_file_preallocate";
        /// `io_module_file_get_size`
        FILE_GET_SIZE: usize = 4, slot "io_module_file_get_size";
        /// `io_module_file_get_amode`
        FILE_GET_AMODE: usize = 5, slot "io_module_file_get_amode";
        /// `io_module_file_set_info`
        FILE_SET_INFO: usize = 6, slot "io_module_file_set_info";
        /// `io_module_file_get_info`
        FILE_GET_INFO: usize = 7, slot "io_module_file_get_info";
        /// `io_module_file_set_view`
        FILE_SET_VIEW: usize = 8, slot "io_module_file_set_view";
        /// `io_module_file_get_view`
        FILE_GET_VIEW: usize = 9, slot "io_module_file_get_view";
        /// `io_module_file_read_at`
        FILE_READ_AT: usize = 10, slot "io_module_file_read_at";
        /// `io_module_file_read_at_all`
        FILE_READ_AT_ALL: usize = 11, slot "io_module_file_read_at_all";
        /// `io_module_file_write_at`
        FILE_WRITE_AT: usize = 12, slot "io_module_file_write_at";
        /// `io_module_file_write_at_all`
        FILE_WRITE_AT_ALL: usize = 13, slot "io_module_file_write_at_all";
        /// `io_module_file_iread_at`
        FILE_IREAD_AT: usize = 14, slot "io_module_file_iread_at";
        /// `io_module_file_iwrite_at`
        FILE_IWRITE_AT: usize = 15, slot "io_module_file_iwrite_at";
        /// `io_module_file_iread_at_all`
        FILE_IREAD_AT_ALL: usize = 16, slot "io_module_file_iread_at_all";
        /// `io_module_file_iwrite_at_all`
        FILE_IWRITE_AT_ALL: usize = 17, slot "io_module_file_iwrite_at_all";
        /// `io_module_file_read`
        FILE_READ: usize = 18, slot "io_module_file_read";
        /// `io_module_file_read_all`
        FILE_READ_ALL: usize = 19, slot "io_module_file_read_all";
        /// `io_module_file_write`
        FILE_WRITE: usize = 20, slot "io_module_file_write";
        /// `io_module_file_write_all`
        FILE_WRITE_ALL: usize = 21, slot "io_module_file_write_all";
        /// `io_module_file_iread`
        FILE_IREAD: usize = 22, slot "io_module_file_iread";
        /// `io_module_file_iwrite`
        FILE_IWRITE: usize = 23, slot "io_module_file_iwrite";
        /// `io_module_file_iread_all`
        FILE_IREAD_ALL: usize = 24, slot "io_module_file_iread_all";
        /// `io_module_file_iwrite_all`
        FILE_IWRITE_ALL: usize = 25, slot "io_module_file_iwrite_all";
        /// `io_module_file_seek`
        FILE_SEEK: usize = 26, slot "io_module_file_seek";
        /// `io_module_file_get_position`
        FILE_GET_POSITION: usize = 27, slot "io_module_file_get_position";
        /// `io_module_file_get_byte_offset`
        FILE_GET_BYTE_OFFSET: usize = 28, slot "io_module_file_get_byte_offset";
        /// `io_module_file_read_shared`
        FILE_READ_SHARED: usize = 29, slot "io_module_file_read_shared";
        /// `io_module_file_write_shared`
        FILE_WRITE_SHARED: usize = 30, slot "io_module_file_write_shared";
        /// `io_module_file_iread_shared`
        FILE_IREAD_SHARED: usize = 31, slot "io_module_file_iread_shared";
        /// `io_module_file_iwrite_shared`
        FILE_IWRITE_SHARED: usize = 32, slot "io_module_file_iwrite_shared";
        /// `io_module_file_read_ordered`
        FILE_READ_ORDERED: usize = 33, slot "io_module_file_read_ordered";
        /// `io_module_file_write_ordered`
        FILE_WRITE_ORDERED: usize = 34, slot "io_module_file_write_ordered";
        /// `io_module_file_seek_shared`
        FILE_SEEK_SHARED: usize = 35, slot "io_module_file_seek_shared";
        /// `io_module_file_get_position_shared`
        FILE_GET_POSITION_SHARED: usize = 36, slot "io_module_file_get_position_shared";
        /// `io_module_file_read_at_all_begin`
        FILE_READ_AT_ALL_BEGIN: usize = 37, slot "io_module_file_read_at_all_begin";
        /// `io_module_file_read_at_all_end`
        FILE_READ_AT_ALL_END: usize = 38, slot "io_module_file_read_at_all_end";
        /// `io_module_file_write_at_all_begin`
        FILE_WRITE_AT_ALL_BEGIN: usize = 39, slot "io_module_file_write_at_all_begin";
        /// `io_module_file_write_at_all_end`
        FILE_WRITE_AT_ALL_END: usize = 40, slot "io_module_file_write_at_all_end";
        /// `io_module_file_read_all_begin`
        FILE_READ_ALL_BEGIN: usize = 41, slot "io_module_file_read_all_begin";
        /// `io_module_file_read_all_end`
        FILE_READ_ALL_END: usize = 42, slot "io_module_file_read_all_end";
        /// `io_module_file_write_all_begin`
        FILE_WRITE_ALL_BEGIN: usize = 43, slot "io_module_file_write_all_begin";
        /// `io_module_file_write_all_end`
        FILE_WRITE_ALL_END: usize = 44, slot "io_module_file_write_all_end";
        /// `io_module_file_read_ordered_begin`
        FILE_READ_ORDERED_BEGIN: usize = 45, slot "io_module_file_read_ordered_begin";
        /// `io_module_file_read_ordered_end`
        FILE_READ_ORDERED_END: usize = 46, slot "io_module_file_read_ordered_end";
        /// `io_module_file_write_ordered_begin`
        FILE_WRITE_ORDERED_BEGIN: usize = 47, slot "io_module_file_write_ordered_begin";
        /// `io_module_file_write_ordered_end`
        FILE_WRITE_ORDERED_END: usize = 48, slot "io_module_file_write_ordered_end";
        /// `io_module_file_get_type_extent`
        FILE_GET_TYPE_EXTENT: usize = 49, slot "io_module_file_get_type_extent";
        /// `io_module_file_set_atomicity`
        FILE_SET_ATOMICITY: usize = 50, slot "io_module_file_set_atomicity";
        /// `io_module_file_get_atomicity`
        FILE_GET_ATOMICITY: usize = 51, slot "io_module_file_get_atomicity";
        /// `io_module_file_sync`
        FILE_SYNC: usize = 52, slot "io_module_file_sync";
        /// How many they are.
        SLOTS: usize = 53, slots;
    }
}
